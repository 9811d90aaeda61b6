
# Succeeds at the program that a subcommand runs, and behind it; prints the words from there on.
function __rocemu_program
    set -l words (commandline -opc)
    set -l with_value (__rocemu_with_value "$words[2]"); or return 1
    set -e words[1..2]
    while set -q words[1]
        set -l word $words[1]
        if test "$word" = --
            set -e words[1]
            string escape -- $words (commandline -ct)
            return 0
        else if contains -- $word $with_value
            set -e words[1]
        else if not string match -q -- '-*' $word
            string escape -- $words (commandline -ct)
            return 0
        end
        set -e words[1]
    end
    return 1
end

function __rocemu_complete_program
    set -l words (__rocemu_program); or set words (commandline -ct | string match -v -- '-*' | string escape)
    test -n "$words"; and complete -C"$words"
end

# In a list (a,b) and a pair (name=value) what is before stays.
function __rocemu_interfaces
    set -l head (commandline -ct | string replace -r '^--[^=]*=' '' | string replace -r '[^,=]*$' '')
    for interface in (__rocemu_list interface)
        echo "$head$interface"
    end
end

# Is the subcommand this one, with the cursor before any program to run?
function __rocemu_at
    set -l words (commandline -opc)
    test "$words[2]" = "$argv[1]"; and not __rocemu_program >/dev/null
end

function __rocemu_first
    test (count (commandline -opc)) -eq 1
end

complete -c rocemu -f
complete -c rocemu -n __rocemu_first -s h -l help -d 'Print the commands'
complete -c rocemu -n __rocemu_first -l version -d 'Print the version'
complete -c rocemu -n '__rocemu_program >/dev/null' -a '(__rocemu_complete_program)'
