# Sourced by ./run and ./test: says what is missing before anything is built, with the line that installs it.
# shellcheck shell=bash

# The line that installs a package on this machine. Its names: Debian's, Fedora's, Arch's, Alpine's, Homebrew's.
installing() {
  local as_root=""
  [[ $EUID == 0 ]] || as_root="sudo "
  if command -v apt-get >/dev/null; then echo "${as_root}apt-get install -y $1"
  elif command -v dnf >/dev/null; then echo "${as_root}dnf install -y $2"
  elif command -v pacman >/dev/null; then echo "${as_root}pacman -S --needed $3"
  elif command -v apk >/dev/null; then echo "${as_root}apk add $4"
  elif command -v brew >/dev/null; then echo "brew install $5"
  elif [[ $OSTYPE == darwin* ]]; then echo "xcode-select --install"
  else echo "(with this system's package manager: $1)"
  fi
}

# need COMMAND WHAT LINE: remembers what is missing, so that all of it is said at once.
missing=""
need() {
  command -v "$1" >/dev/null || missing+="  $2 ($1) is missing. Install it with:"$'\n'"    $3"$'\n'
}

need_toolchain() {
  # Where rustup puts it, although the shell may not know yet.
  [[ -x ${HOME:-}/.cargo/bin/cargo ]] && PATH="$PATH:$HOME/.cargo/bin"
  # shellcheck disable=SC2016 # $HOME is for whoever runs the line.
  need cargo "The Rust toolchain" 'curl --proto "=https" --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . "$HOME/.cargo/env"'
  need cc "A C compiler" "$(installing build-essential gcc base-devel build-base gcc)"
  # The Kafka client and its TLS are built from source.
  need make "make" "$(installing build-essential make base-devel build-base make)"
  need perl "Perl" "$(installing perl perl perl perl perl)"
}

# Ends the script if anything is.
stop_if_missing() {
  [[ -z $missing ]] && return
  printf '%s cannot start:\n%sThen run it again.\n' "$1" "$missing" >&2
  exit 1
}

# Builds the release binary, and puts its path into $binary. Cargo shows the progress.
build() {
  local root=$1 target=${CARGO_TARGET_DIR:-target}
  [[ $target == /* ]] || target="$root/$target"
  binary="$target/release/mqgate"
  [[ -x $binary ]] || echo "Building mqgate. The first time takes some minutes." >&2
  # From the root, where rust-toolchain.toml lies.
  (cd "$root" && cargo build --release --locked -p mqgate --target-dir "$target")
}
