# Functions of every stage. Each check adds one line to $OUT/checks: `ok NAME`, `failed NAME: why`
# or `skipped NAME: why`. Its output is in /out/NAME.out and /out/NAME.err.
export OUT=${OUT:-/out}

# check NAME TEXT [LIMIT]: runs TEXT in a shell that ends at the first failing command. It fails if
# the shell does, or does not end within LIMIT seconds. It is skipped if the shell ends with 77.
check() {
  local name=$1 status
  timeout --kill-after=5 "${3:-90}" bash -euo pipefail -c "$2" \
    > "$OUT/$name.out" 2> "$OUT/$name.err" < /dev/null
  status=$?
  if [ $status = 0 ]; then
    echo "ok $name" >> "$OUT/checks"
  elif [ $status = 77 ]; then
    skip "$name" "$(tail -n 1 "$OUT/$name.err" | cut -c1-160)"
  else
    echo "failed $name: status $status: $(tail -n 1 "$OUT/$name.err" | cut -c1-160)" \
      >> "$OUT/checks"
  fi
}

# skip NAME WHY
skip() {
  echo "skipped $1: $2" >> "$OUT/checks"
}

# expect WHAT ACTUAL EXPECTED: fails with both if they differ.
expect() {
  [ "$2" = "$3" ] && return
  echo "$1: got $2, expected $3" >&2
  return 1
}

# refused STATUS COMMAND...: the command must end with this exit code.
refused() {
  local expected=$1 status=0
  shift
  "$@" || status=$?
  expect "exit code of $*" "$status" "$expected"
}

# at_least WHAT ACTUAL LEAST
at_least() {
  [ "$2" -ge "$3" ] && return
  echo "$1: got $2, expected at least $3" >&2
  return 1
}

# measured FILE ARGUMENT...: runs linerate and keeps its document. A measurement that is invalid, as
# when the emulated machine stood still, has no figures: its check is skipped.
measured() {
  local status=0
  "$LINERATE" "${@:2}" --json > "$1" || status=$?
  if [ "$status" = 3 ]; then
    jq -r '"invalid: " + ([.points[0].trials[].why[]] + .points[0].why)[0]' "$1" >&2
    exit 77
  fi
  expect "exit code" "$status" 0
}

# figure FILE METRIC: an estimate of the first job of a document.
figure() {
  jq -e ".points[0].jobs[0].metrics.$2.estimate | floor" "$1"
}

export -f expect refused at_least measured figure
