# Packages of other Debian suites, to be unpacked into folders: for scripts that set $roots, and source this.
#
# They come through apt from the mirror that this system already uses, with lists and cache of their own below
# $roots/.apt; nothing is installed and the system's apt is not touched. Ends with 77 and the reason where this
# system cannot do that.

for tool in apt-get apt-cache dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "no suite: this system has no $tool"; exit 77; }
done

# The mirror of this system's own suite, from the one-line or the deb822 form of sources.list.
system_codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
system_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
    sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}//p' |
    awk -v suite="$system_codename" '$2 == suite { print $1; exit }'
  awk -v suite="$system_codename" '
    function flush(  n, names, i) {
      n = split(suites, names, " ")
      for (i = 1; i <= n; i++) if (names[i] == suite && uris != "") { split(uris, first, " "); print first[1]; exit }
      uris = suites = ""
    }
    /^[[:space:]]*$/ { flush(); next }
    tolower($1) == "uris:" { uris = substr($0, index($0, ":") + 1) }
    tolower($1) == "suites:" { suites = substr($0, index($0, ":") + 1) }
    END { flush() }' $(ls /etc/apt/sources.list.d/*.sources 2>/dev/null) /dev/null
}
mirror=$(system_mirror | head -n 1)
[ -n "$mirror" ] || { echo "no suite: apt's sources name no mirror for '$system_codename'"; exit 77; }
# The archive removes the old suites from its mirrors in the end, and then their expiry date has
# passed; signatures are checked all the same.
keyring=
for candidate in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
  [ -e "$candidate" ] && { keyring=$candidate; break; }
done
[ -n "$keyring" ] || { echo "no suite: the package debian-archive-keyring is not installed"; exit 77; }

private=$roots/.apt
private_apt() {
  command=$1
  suite=$2
  shift 2
  home=$private/$suite
  "$command" -q -o Dir::Etc::sourcelist="$home/sources.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
    -o Dir::State="$home/state" -o Dir::State::status="$home/state/status" -o Dir::Cache="$home/cache" \
    -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o Acquire::Retries=2 \
    -o APT::Sandbox::User= "$@"
}

# fetch SUITE PACKAGE FOLDER: the files of PACKAGE of SUITE below FOLDER.
fetch() {
  (
    mkdir -p "$private/$1/deb"
    cd "$private/$1/deb"
    rm -f "$2"_*.deb
    private_apt apt-get "$1" download "$2" >"$private/$1/log" 2>&1 || exit 1
    dpkg-deb -x "$2"_*.deb "$3"
    rm -f "$2"_*.deb
  )
}

# open_suite NAME SUITE...: lists of the suites, which the functions above then know as NAME.
open_suite() {
  home=$private/$1
  mkdir -p "$home/state/lists/partial" "$home/cache/archives/partial"
  : >"$home/state/status"
  : >"$home/sources.list"
  name=$1
  shift
  for one in "$@"; do echo "deb [signed-by=$keyring] $mirror $one main" >>"$home/sources.list"; done
  private_apt apt-get "$name" update >"$home/log" 2>&1
}
# 60 MB of lists that are not needed again.
close_suite() {
  rm -rf "$private/$1/state" "$private/$1/cache"
}
