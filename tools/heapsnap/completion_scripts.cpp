#include "tools/heapsnap/completion_scripts.h"

#include <fmt/format.h>

#include <string_view>

namespace heapsnap {

namespace {

using Kind = CompletedValue::Kind;

struct KnownPlaceholder {
  const char* placeholder;
  Kind kind;
  std::vector<std::string> words{};
};

const std::vector<KnownPlaceholder>& known_placeholders() {
  static const std::vector<KnownPlaceholder> known = {
      {"FILE", Kind::kFile},
      {"PATH", Kind::kFile},
      {"CORE", Kind::kFile},
      {"SNAPSHOT", Kind::kFile},
      {"DIR", Kind::kFolder},
      {"PID", Kind::kProcess},
      {"WHEN", Kind::kWords, {"auto", "always", "never"}},
      {"HOW", Kind::kWords, {"auto", "fork", "stop", "none"}},
      {"FORMAT",
       Kind::kWords,
       {"ndjson", "ptmallocdump", "folded", "pprof", "speedscope", "dhat", "heaptrack",
        "heapsnapshot", "ruby-dump-all", "heap_dump"}},
      {"PICTURE", Kind::kWords, {"png", "svg"}},
      {"COLOURS", Kind::kWords, {"state", "residency", "size", "type", "stack", "leak"}},
      {"BASIS", Kind::kWords, {"stacks", "owners"}},
      {"ROWS", Kind::kWords, {"chunks", "sums"}},
      {"WHICH", Kind::kWords, {"all", "main", "others"}},
      {"ORDER", Kind::kWords, {"live-bytes", "live-blocks", "rate", "churn"}},
      {"GROUP", Kind::kWords, {"stack", "function", "module", "thread"}},
      {"COLUMN", Kind::kWords, {"bytes", "count", "retained"}},
      {"OWNER", Kind::kWords, {"root", "type", "stack"}},
      {"SUMS", Kind::kWords, {"all", "owner", "type", "stack", "leak", "size", "arena", "rss"}},
      {"LISTING", Kind::kWords, {"text", "heapprof", "churnlog"}},
      {"LOG", Kind::kWords, {"text", "churnlog"}},
      {"SHELL", Kind::kWords, {"bash", "zsh", "fish"}},
  };
  return known;
}

// Prints container:ID, with 12 digits of the id, for each container that has processes.
constexpr const char* kContainers =
    "sed -nE 's#.*[-:/]([0-9a-f]{12})[0-9a-f]{52}([.]scope)?$#container:\\1#p' /proc/[0-9]*/cgroup "
    "2>/dev/null | sort -u";

std::string join(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

// In single quotes for a POSIX shell; fish takes a backslash inside of them.
std::string quoted(std::string_view text, std::string_view quote_mark) {
  std::string result = "'";
  for (const char character : text) {
    if (character == '\'') {
      result += quote_mark;
    } else {
      result += character;
    }
  }
  return result + "'";
}
std::string shell_quoted(std::string_view text) {
  return quoted(text, "'\\''");
}
std::string fish_quoted(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    if (character == '\\') escaped += '\\';
    escaped += character;
  }
  return quoted(escaped, "\\'");
}

// Characters that structure a specification of zsh's _arguments and _describe.
std::string zsh_text(std::string_view text) {
  std::string escaped;
  for (const char character : text) {
    if (std::string_view("\\:[]").find(character) != std::string_view::npos) escaped += '\\';
    escaped += character;
  }
  return escaped;
}

std::vector<std::string> spellings(const OptionDescription& option) {
  std::vector<std::string> result;
  if (!option.letter.empty()) result.push_back("-" + option.letter);
  result.push_back("--" + option.name);
  return result;
}

// A command that fills COMPREPLY, one line a reply: file names may hold blanks.
std::string bash_reply(const CompletedValue& value) {
  constexpr const char* kReply = "mapfile -t COMPREPLY < <(compgen {} -- \"$current\")";
  switch (value.kind) {
    case Kind::kWords: return fmt::format(kReply, "-W " + shell_quoted(join(value.words, " ")));
    case Kind::kFile: return "compopt -o filenames; " + fmt::format(kReply, "-f");
    case Kind::kFolder: return "compopt -o filenames; " + fmt::format(kReply, "-d");
    // Not by -W, which expands its words: a process may be called "$(reboot)".
    case Kind::kProcess: return "_heapsnap_offer \"$current\" < <(_heapsnap_processes)";
    case Kind::kAnything: break;
  }
  return "COMPREPLY=()";
}

std::string zsh_action(const CompletedValue& value) {
  switch (value.kind) {
    case Kind::kWords: return "(" + join(value.words, " ") + ")";
    case Kind::kFile: return "_files";
    case Kind::kFolder: return "_files -/";
    case Kind::kProcess: return "_heapsnap_processes";
    case Kind::kAnything: break;
  }
  return " ";
}

// "-o+" takes its value in the same or the next word, "--output=" the same with "=".
std::string zsh_specification(const OptionDescription& option) {
  const bool takes_value = !option.placeholder.empty();
  std::string tail = "[" + zsh_text(option.help) + "]";
  if (takes_value) {
    tail +=
        ":" + zsh_text(option.placeholder) + ":" + zsh_action(completed_value(option.placeholder));
  }
  const std::string longest = "--" + option.name + (takes_value ? "=" : "");
  if (option.letter.empty()) return shell_quoted(longest + tail);
  return fmt::format("'(-{0} --{1})'{{-{0}{2},{3}}}{4}", option.letter, option.name,
                     takes_value ? "+" : "", longest, shell_quoted(tail));
}

}  // namespace

CompletedValue completed_value(const std::string& placeholder) {
  for (const KnownPlaceholder& known : known_placeholders()) {
    if (placeholder == known.placeholder) return {known.kind, known.words};
  }
  return {};
}

std::string bash_completions(const std::vector<CompletedCommand>& commands) {
  CompletedValue names{Kind::kWords, {}};
  std::string values;
  std::string words;
  for (const CompletedCommand& command : commands) {
    names.words.push_back(command.name);
    CompletedValue options{Kind::kWords, {}};
    for (const OptionDescription& option : command.usage.options) {
      std::vector<std::string> patterns;
      for (const std::string& spelling : spellings(option)) {
        options.words.push_back(spelling);
        patterns.push_back(command.name + ":" + spelling);
      }
      if (option.placeholder.empty()) continue;
      values += fmt::format("    {}) {}; return ;;\n", join(patterns, "|"),
                            bash_reply(completed_value(option.placeholder)));
    }
    const std::vector<std::string>& positional = command.usage.positional;
    const CompletedValue word =
        positional.empty() ? CompletedValue{} : completed_value(positional.front());
    words += fmt::format("    {0}:-*) {1} ;;\n    {0}:*) {2} ;;\n", command.name,
                         bash_reply(options), bash_reply(word));
  }
  names.words.insert(names.words.end(), {"--help", "--version"});
  return fmt::format(R"SCRIPT(# bash completion for heapsnap, made by: heapsnap completions bash
# Names that the shell would read as something else are left out.
_heapsnap_processes() {{
  local pid name
  ps -eo pid= -o comm= 2>/dev/null | while read -r pid name; do
    printf '%s\n' "$pid"
    [[ $name == *[!A-Za-z0-9._+-]* ]] || printf '%s\n' "$name"
  done
  {}
}}
# Those lines of standard input that begin with $1.
_heapsnap_offer() {{
  local word
  COMPREPLY=()
  while read -r word; do
    if [[ $word == "$1"* ]]; then COMPREPLY+=("$word"); fi
  done
}}
_heapsnap() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}}
  # readline takes "--option=value" apart at the sign.
  if [[ $current == "=" ]]; then
    current=
  elif [[ $previous == "=" ]] && (( COMP_CWORD > 2 )); then
    previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  # And "container:ID" at the colon.
  local named=$previous
  if [[ $previous == ":" ]] && (( COMP_CWORD > 2 )); then named=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  if [[ $named == "container" && "$previous$current" == *:* ]]; then
    current=${{current#:}}
    _heapsnap_offer "$current" < <(_heapsnap_processes | sed -n 's/^container://p')
    return
  fi
  if (( COMP_CWORD == 1 )); then
    {}
    return
  fi
  case $command:$previous in
{}  esac
  case $command:$current in
{}  esac
}}
complete -F _heapsnap heapsnap
)SCRIPT",
                     kContainers, bash_reply(names), values, words);
}

std::string zsh_completions(const std::vector<CompletedCommand>& commands) {
  std::string summaries;
  std::string cases;
  for (const CompletedCommand& command : commands) {
    summaries +=
        "    " + shell_quoted(zsh_text(command.name) + ":" + zsh_text(command.summary)) + "\n";
    std::string specifications;
    for (const OptionDescription& option : command.usage.options) {
      specifications += " \\\n        " + zsh_specification(option);
    }
    for (size_t i = 0; i < command.usage.positional.size(); ++i) {
      const std::string& word = command.usage.positional[i];
      specifications +=
          " \\\n        " + shell_quoted(fmt::format("{}:{}:{}", i + 1, zsh_text(word),
                                                     zsh_action(completed_value(word))));
    }
    cases += fmt::format("    {})\n      _arguments -s{} ;;\n", command.name, specifications);
  }
  return fmt::format(R"SCRIPT(#compdef heapsnap
# zsh completion for heapsnap, made by: heapsnap completions zsh
_heapsnap_processes() {{
  local -a containers
  containers=(${{(f)"$({})"}})
  _pids
  compadd -a containers
}}
_heapsnap() {{
  local -a commands
  commands=(
{})
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [[ $funcstack[1] == _heapsnap ]]; then
  _heapsnap "$@"
else
  compdef _heapsnap heapsnap
fi
)SCRIPT",
                     kContainers, summaries, cases);
}

std::string fish_completions(const std::vector<CompletedCommand>& commands) {
  std::string script =
      "# fish completion for heapsnap, made by: heapsnap completions fish\n"
      "complete -c heapsnap -f\n"
      "function __heapsnap_containers\n  sh -c " +
      fish_quoted(kContainers) + "\nend\n";
  for (const CompletedCommand& command : commands) {
    script += fmt::format("complete -c heapsnap -n __fish_use_subcommand -a {} -d {}\n",
                          command.name, fish_quoted(command.summary));
  }
  for (const CompletedCommand& command : commands) {
    const std::string start = fmt::format(
        "complete -c heapsnap -n {}", fish_quoted("__fish_seen_subcommand_from " + command.name));
    const auto arguments = [](const CompletedValue& value) -> std::string {
      switch (value.kind) {
        case Kind::kWords: return " -a " + fish_quoted(join(value.words, " "));
        case Kind::kFile: return " -F";
        case Kind::kFolder: return " -a '(__fish_complete_directories)'";
        case Kind::kProcess: return " -a '(__fish_complete_pids; __heapsnap_containers)'";
        case Kind::kAnything: break;
      }
      return "";
    };
    for (const OptionDescription& option : command.usage.options) {
      script += start;
      if (!option.letter.empty()) script += " -s " + option.letter;
      script += " -l " + option.name;
      if (!option.placeholder.empty()) {
        const CompletedValue value = completed_value(option.placeholder);
        // -x takes a value and no files, -r a value.
        script += (value.kind == Kind::kFile ? " -r" : " -x") + arguments(value);
      }
      script += " -d " + fish_quoted(option.help) + "\n";
    }
    for (const std::string& word : command.usage.positional) {
      const std::string values = arguments(completed_value(word));
      if (!values.empty()) script += start + values + "\n";
    }
  }
  return script;
}

}  // namespace heapsnap
