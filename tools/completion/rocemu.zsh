
# Offers the list of the last argument's name; in lists (a,b) and pairs (name=value) what is behind.
__rocemu_pick() {
	local list=$argv[-1]
	[[ $list != interface ]] || compset -P '*[,=]'
	compadd "${(@)argv[1,-2]}" -- ${(f)"$(__rocemu_list $list)"}
}

_rocemu() {
	local curcontext=$curcontext context state line
	typeset -A opt_args
	_arguments -C -S '(- *)'{-h,--help}'[Print the commands]' '(- *)--version[Print the version]' \
		'1:command:__rocemu_commands' '*::argument:->argument' && return
	[[ $state == argument ]] && (( $+functions[__rocemu_$words[1]] )) || return 1
	curcontext=${curcontext%:*:*}:rocemu-$words[1]:
	__rocemu_$words[1]
}

# Sourced, or loaded by its name at the first completion.
if [[ $funcstack[1] == _rocemu ]]; then
	_rocemu "$@"
else
	compdef _rocemu rocemu
fi
