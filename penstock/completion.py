"""Completes the command line in bash and zsh: commands, flags, keys of a config, paths.

The scripts ask a command for its words when they are first needed in a shell, and keep them.
"""

from collections.abc import Iterable

from pipeline.base.cli.run import COMPLETE
from pipeline.base.errors import InputError, did_you_mean

# Bash cuts words at `=`, and replaces only what comes after it. A blank in a name is typed as `\ `.
_BASH = """\
declare -gA _penstock_words
_penstock() {
  local line="${COMP_LINE:0:COMP_POINT}" name="${COMP_WORDS[1]}"
  local kept=${line//\\\\ /$'\\1'}
  local word="${kept##* }"
  word="${word//$'\\1'/ }"
  if [[ $COMP_CWORD -le 1 ]]; then
    COMPREPLY=($(compgen -W '@COMMANDS@' -- "$word"))
    return
  fi
  if [[ " @COMMANDS@ " == *" $name "* && -z ${_penstock_words[$name]+known} ]]; then
    _penstock_words[$name]=$(penstock "$name" @COMPLETE@ 2>/dev/null)
  fi
  COMPREPLY=($(compgen -W "${_penstock_words[$name]}" -- "$word"))
  if [[ ${#COMPREPLY[@]} -eq 0 || ($word == *= && ${COMPREPLY[*]} == "$word") ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "${word#*=}")
    return
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  [[ $word == *=* ]] && COMPREPLY=("${COMPREPLY[@]#"${word%%=*}="}")
  return 0
}
complete -F _penstock penstock"""

_ZSH = """\
#compdef penstock
typeset -gA _penstock_words
_penstock() {
  local name=${words[2]}
  if (( CURRENT == 2 )); then
    compadd -- @COMMANDS@
    return
  fi
  if [[ " @COMMANDS@ " == *" $name "* && -z ${_penstock_words[$name]+known} ]]; then
    _penstock_words[$name]=$(penstock "$name" @COMPLETE@ 2>/dev/null)
  fi
  local -a known=(${(f)_penstock_words[$name]})
  [[ $PREFIX != *= ]] && compadd -S '' -- ${(M)known:#*=} && return
  compadd -- ${known:#*=} && return
  compset -P '*='
  _files
}
compdef _penstock penstock"""

_SHELLS = {"bash": _BASH, "zsh": _ZSH}


def script(shell: str, commands: Iterable[str]) -> str:
    """The script for a shell: `eval "$(penstock completion bash)"`; raises InputError for another shell."""
    if shell not in _SHELLS:
        raise InputError(
            "penstock completion",
            received=repr(shell) if shell else "no shell",
            expected="bash or zsh",
            action=did_you_mean(
                shell,
                _SHELLS,
                otherwise='Write eval "$(penstock completion bash)" in ~/.bashrc.',
                form="penstock completion {}",
            ),
        )
    return _SHELLS[shell].replace("@COMMANDS@", " ".join(commands)).replace("@COMPLETE@", COMPLETE)
