"""What a shell has to source. Each script asks `secondary-scheduler __complete` and knows nothing of the commands."""

from __future__ import annotations

BASH = """\
# bash completion of secondary-scheduler. Once: source <(secondary-scheduler completion bash)
_secondary_scheduler() {
  local line directive=4
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :*) directive="${line#:}" ;;
      *) COMPREPLY+=("${line%%$'\\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  if [ "$directive" = 0 ]; then
    compopt -o default 2>/dev/null
  fi
}
complete -F _secondary_scheduler secondary-scheduler
"""
ZSH = """\
#compdef secondary-scheduler
# zsh completion of secondary-scheduler. Once: source <(secondary-scheduler completion zsh)
_secondary_scheduler() {
  local line directive=4
  local -a values
  for line in "${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case "$line" in
      :*) directive="${line#:}" ;;
      *$'\\t'*) values+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}") ;;
      ?*) values+=("${line//:/\\\\:}") ;;
    esac
  done
  (( ${#values} )) && _describe -V values values
  [[ "$directive" == 0 ]] && _files
}
if [ "${funcstack[1]}" = "_secondary_scheduler" ]; then
  _secondary_scheduler "$@"
else
  compdef _secondary_scheduler secondary-scheduler
fi
"""
FISH = """\
# fish completion of secondary-scheduler. Once: secondary-scheduler completion fish | source
function __secondary_scheduler_complete
  set -l words (commandline -opc)
  set -l last (commandline -ct)
  for line in ($words[1] __complete -- $words[2..-1] "$last" 2>/dev/null)
    switch $line
      case ':0'
        __fish_complete_path "$last"
      case ':*'
      case '*'
        echo $line
    end
  end
end
complete -c secondary-scheduler -f -a '(__secondary_scheduler_complete)'
"""
KUBECTL = """\
#!/bin/sh
# Completion of `kubectl secondary-scheduler`: save it as kubectl_complete-secondary_scheduler, executable, on the PATH.
exec secondary-scheduler __complete -- "$@"
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH, "kubectl": KUBECTL}
