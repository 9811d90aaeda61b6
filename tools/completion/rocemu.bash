
# COMP_WORDS is split at = and : as well. Here are the words as a program gets them, in words, and the
# place in COMP_WORDS where each begins, in starts.
_rocemu_split() {
	local rest=$COMP_LINE next i
	words=() starts=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		next=${rest#"${rest%%[![:blank:]]*}"}
		if ((i > 0)) && [[ $next == "$rest" ]]; then
			words[-1]+=${COMP_WORDS[i]}
		else
			words+=("${COMP_WORDS[i]}")
			starts+=("$i")
		fi
		rest=${next#"${COMP_WORDS[i]}"}
	done
}

# Offers those lines of the input that begin like the word. What is before the word (head) stays; readline
# wants the part behind the last of its word breaks.
_rocemu_offer() {
	local line strip="" part c
	for c in = : @; do
		[[ $COMP_WORDBREAKS == *"$c"* && $head == *"$c"* ]] || continue
		part=${head%"${head##*"$c"}"}
		((${#part} <= ${#strip})) || strip=$part
	done
	while IFS= read -r line; do
		[[ $line == "$cur"* ]] || continue
		printf -v line '%s%q' "$head" "$line"
		COMPREPLY+=("${line#"$strip"}")
	done
}

_rocemu_value() {
	case $kind in
	file) compopt -o default ;;
	interface)
		head+=${cur%"${cur##*[,=]}"} cur=${cur##*[,=]}
		_rocemu_offer < <(_rocemu_list interface)
		;;
	other | program) ;;
	?*\ ?*) _rocemu_offer <<<"${kind// /$'\n'}" ;;
	*) _rocemu_offer < <(_rocemu_list "$kind") ;;
	esac
}

# The program that a subcommand runs, and its arguments, completed as on a line of its own.
_rocemu_program() {
	if declare -F _comp_command_offset >/dev/null; then
		_comp_command_offset "${starts[$1]}"
	elif declare -F _command_offset >/dev/null; then
		_command_offset "${starts[$1]}"
	elif (($1 + 1 == ${#words[@]})); then
		mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		[[ ${COMPREPLY[*]} ]] || compopt -o default
	else
		compopt -o default
	fi
}

_rocemu() {
	local words starts i word command cur kind="" head="" options=1 runs="" program="" last
	COMPREPLY=()
	_rocemu_split
	last=$((${#words[@]} - 1)) command=${words[1]-} cur=${words[-1]}
	if ((last == 1)); then
		_rocemu_offer < <(_rocemu_commands)
		return
	fi
	_rocemu_kind "$command" ""
	[[ $kind != program ]] || runs=1
	kind=""
	for ((i = 2; i < last; i++)); do
		word=${words[i]}
		if [[ $kind ]]; then
			kind=""
		elif [[ $word == -- ]]; then
			options=""
			[[ ! $runs ]] || program=$((i + 1))
		elif [[ $options && $word == -?* ]]; then
			_rocemu_kind "$command" "$word"
		elif [[ $runs ]]; then
			program=$i
		fi
		[[ ! $program ]] || break
	done
	if [[ $program ]]; then
		_rocemu_program "$program"
	elif [[ $kind ]]; then
		_rocemu_value
	elif [[ $options && $cur == --*=* ]]; then
		head=${cur%%=*}= cur=${cur#*=}
		_rocemu_kind "$command" "${head%=}"
		_rocemu_value
	elif [[ $options && $cur == -* ]]; then
		_rocemu_offer < <(_rocemu_options "$command")
	else
		_rocemu_kind "$command" ""
		case $kind in
		program) _rocemu_program "$last" ;;
		"") _rocemu_offer < <(_rocemu_options "$command") ;;
		*) _rocemu_value ;;
		esac
	fi
}

complete -F _rocemu rocemu
