#!/bin/sh
# The scripted agent of the demo. It uses the protocol for arbitrary programs (see docs/agents.md)
# and follows a script per task: most succeed, one crashes, one runs out of quota, one falsely
# claims to be done, one writes outside its paths, and one needs a person.
set -eu

demo=$1
attempts=$demo/attempts/$BANKSMAN_TASK
prompt=$(cat)

attempt=$(($(cat "$attempts" 2>/dev/null || echo 0) + 1))
echo "$attempt" >"$attempts"

say() { printf '{"type":"text","text":"%s"}\n' "$1"; }
done_with() {
    usage='{"input_tokens":1800,"output_tokens":420,"cost_usd":0.012}'
    printf '{"type":"result","status":"success","text":"%s","usage":%s}\n' "$1" "$usage"
    exit 0
}
fails_with() {
    error="{\"kind\":\"$1\",\"message\":\"$2\"$3}"
    printf '{"type":"result","status":"error","text":"%s","error":%s}\n' "$2" "$error"
    exit 1
}
# Simulate a delay.
think() { sleep "0.$1"; }
# write NAME < TEXT: write and commit a function of the library.
write() {
    cat >"lib/$1.sh"
    git add "lib/$1.sh"
    git commit -q -m "Add $1"
    say "wrote lib/$1.sh"
}

say "reading the tests"
think 4
case $BANKSMAN_TASK in
t1)
    write sum <<'EOF'
sum() { total=0; for n in "$@"; do total=$((total + n)); done; echo "$total"; }
EOF
    done_with "sum adds up its arguments; its test passes" ;;
t2)
    write max <<'EOF'
max() { most=$1; for n in "$@"; do [ "$n" -gt "$most" ] && most=$n; done; echo "$most"; }
EOF
    done_with "max finds the largest; its test passes" ;;
t3)
    if [ "$attempt" = 1 ]; then
        say "halfway through"
        echo "reverse() {" >lib/reverse.sh
        kill -SEGV $$
    fi
    write reverse <<'EOF'
reverse() {
    out= rest=$1
    while [ -n "$rest" ]; do out=${rest%"${rest#?}"}$out rest=${rest#?}; done
    echo "$out"
}
EOF
    done_with "reverse is complete now" ;;
t4)
    if [ "$attempt" = 1 ]; then
        resets=$(($(date +%s) + 4))
        fails_with quota "you have reached your usage limit" ",\"resets_at\":$resets"
    fi
    write words <<'EOF'
words() { set -f; set -- $1; echo $#; set +f; }
EOF
    done_with "words counts words; its test passes" ;;
t5)
    if [ "$attempt" = 1 ]; then
        done_with "all done, every test passes"
    fi
    write trim <<'EOF'
trim() { text=$1; text=${text#"${text%%[! ]*}"}; text=${text%"${text##*[! ]}"}; echo "$text"; }
EOF
    done_with "trim removes the blanks at both ends; now it is really written" ;;
t6)
    if [ "$attempt" = 1 ]; then
        printf 'exit 0\n' >tests/run.sh
        write upper <<'EOF'
upper() { echo "$1"; }
EOF
        done_with "made the tests pass"
    fi
    git checkout -q main -- tests/run.sh
    write upper <<'EOF'
upper() { echo "$1" | tr '[:lower:]' '[:upper:]'; }
EOF
    done_with "left the tests alone and wrote the function" ;;
t7)
    # The person's answer is in the prompt of the next attempt.
    licence=$(printf '%s' "$prompt" | grep -o -m 1 -e MIT -e Apache-2.0 | tail -n 1) || licence=
    if [ "$attempt" -gt 1 ] && [ -n "$licence" ]; then
        echo "$licence" >LICENCE
        done_with "the licence is $licence"
    fi
    question='Which licence should the project use? Only you can decide that.'
    printf '{"type":"report","tell":"needs_person","question":"%s"}\n' "$question"
    done_with "asked for the licence" ;;
t8)
    {
        echo "# The library"
        for file in lib/*.sh; do name=${file#lib/}; echo "- ${name%.sh}"; done
    } >MANUAL.md
    # Not committed: Banksman commits for agents that forget to or cannot.
    done_with "the manual lists every function" ;;
esac
