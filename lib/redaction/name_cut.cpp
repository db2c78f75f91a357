#include "redaction/name_cut.h"

#include <algorithm>
#include <array>

#include "analysis/node_links.h"
#include "analysis/stale_words.h"
#include "base/file_name.h"
#include "references/local_name.h"
#include "references/root.h"
#include "references/storage_kind.h"
#include "tracking/function_name.h"
#include "tracking/tracker_library.h"

namespace heapsnap {

namespace {

constexpr std::string_view kDeleted = " (deleted)";
constexpr std::string_view kCut = "...";
constexpr size_t kLongestWord = 40;
constexpr size_t kLongestComm = 15;  // TASK_COMM_LEN
constexpr size_t kLongestPath = 4096;
constexpr size_t kLongestThing = 32;  // "(unnamed union"

// Memory that looks like a file: what comes behind is a name.
constexpr std::array<std::string_view, 3> kMemoryFiles{"/memfd:", "/dev/shm/", "/SYSV"};

bool is_letter_or_digit(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '.';
}

bool is_kernel_word(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char letter) { return (letter >= 'a' && letter <= 'z') || letter == '_'; });
}

bool may_begin_folder(char letter) {
  return is_letter_or_digit(letter) || static_cast<unsigned char>(letter) >= 0x80 ||
         std::string_view("@-~+").find(letter) != std::string_view::npos;
}

// Where the path ends that begins at `begin`, by the ":LINE:COLUMN)" behind it; npos: there is
// none.
size_t end_of_source_path(std::string_view name, size_t begin) {
  constexpr std::string_view kDigits = "0123456789";
  name = name.substr(0, begin + kLongestPath);
  size_t colon = name.find(':', begin);
  for (; colon != std::string_view::npos; colon = name.find(':', colon + 1)) {
    const size_t second = std::min(name.find_first_not_of(kDigits, colon + 1), name.size());
    if (second == colon + 1 || second == name.size() || name[second] != ':') continue;
    const size_t end = std::min(name.find_first_not_of(kDigits, second + 1), name.size());
    if (end != second + 1 && end != name.size() && name[end] == ')') return colon;
  }
  return colon;
}

// Whether "(lambda", "(unnamed struct" or the like ends at `end`.
bool is_unnamed_thing(std::string_view name, size_t end) {
  const size_t begin = end - std::min(end, kLongestThing);
  std::string_view words = name.substr(begin, end - begin);
  const size_t open = words.rfind('(');
  if (open == std::string_view::npos) return false;
  words.remove_prefix(open + 1);
  return std::all_of(words.begin(), words.end(),
                     [](char letter) { return (letter >= 'a' && letter <= 'z') || letter == ' '; });
}

// Takes the folders off the paths in a name: absolute ones, and those by which clang tells what has
// no name, "(lambda at src/s.cpp:3:9)", which may be any.
std::string without_folders(const std::string& name) {
  constexpr std::string_view kEnds = ":,)>;'\"}";
  constexpr std::string_view kAt = " at ";
  std::string cut;
  for (size_t i = 0; i < name.size();) {
    if (name.compare(i, kAt.size(), kAt) == 0 && is_unnamed_thing(name, i)) {
      const size_t end = end_of_source_path(name, i + kAt.size());
      if (end != std::string::npos) {
        cut += kAt;
        const size_t slash = name.rfind('/', end);
        i = slash == std::string::npos ? i + kAt.size() : std::max(slash + 1, i + kAt.size());
        continue;
      }
    }
    const bool may_begin = name[i] == '/' && (i == 0 || !is_letter_or_digit(name[i - 1])) &&
                           i + 1 < name.size() && may_begin_folder(name[i + 1]);
    if (!may_begin) {
      cut += name[i++];
      continue;
    }
    const size_t end = std::min(name.find_first_of(kEnds, i), name.size());
    i = name.rfind('/', end - 1) + 1;
  }
  return cut;
}

// Whether it is how a container's memory is called by its structure.
bool is_storage(const std::string& name) {
  for (int kind = 1; kind < kStorageKindCount; ++kind) {
    if (name == to_string(static_cast<StorageKind>(kind))) return true;
  }
  return false;
}

}  // namespace

std::string NameCut::numbered(Numbered& known, const std::string& name, std::string_view front) {
  const auto [entry, is_new] = known.try_emplace(name);
  if (is_new) entry->second = std::string(front) + std::to_string(known.size());
  return entry->second;
}

void NameCut::add_module(const std::string& path) {
  if (path.starts_with('/')) modules_.insert(path);
}

void NameCut::set_program(const std::string& exe, const std::string& comm) {
  exe_ = exe.ends_with(kDeleted) ? exe.substr(0, exe.size() - kDeleted.size()) : exe;
  comm_ = comm;
  add_module(exe_);
}

std::string NameCut::path(const std::string& path) {
  if (path.empty()) return {};
  const auto known = paths_.find(path);
  if (known != paths_.end()) return known->second;
  const bool is_deleted = path.ends_with(kDeleted);
  std::string cut =
      is_deleted ? cut_path(path.substr(0, path.size() - kDeleted.size())) : cut_path(path);
  if (is_deleted) cut += kDeleted;
  return paths_.emplace(path, std::move(cut)).first->second;
}

std::string NameCut::bracketed(const std::string& name) {
  if (is_tracker_table(name)) return name;
  const std::string_view inner = std::string_view(name).substr(1, name.size() - 1 - 1);
  if (name.ends_with(']') && is_kernel_word(inner)) return name;
  if (name.starts_with("[stack:")) return "[stack:name]";
  const std::string_view front = name.starts_with("[anon_shmem:") ? "[anon_shmem:" : "[anon:";
  return std::string(front) + numbered(memory_names_, name, "name-") + "]";
}

std::string NameCut::cut_path(const std::string& path) {
  if (path.size() > 1 && path.front() == '[') return bracketed(path);
  if (path == "/dev/zero" || path == "/anon_hugepage") return path;
  if (is_tracker_library(path)) {
    return (is_injected_tracker(path) ? "/memfd:" : "/cut/") +
           std::string("libheapsnap_tracker.so");
  }
  for (const std::string_view front : kMemoryFiles) {
    if (path.starts_with(front)) {
      return std::string(front) + "file-" + std::to_string(++files_);
    }
  }
  folders_.insert(path.substr(0, path.rfind('/') + 1));
  if (modules_.contains(path)) return module(path);
  return "/cut/file-" + std::to_string(++files_);
}

// Libraries of the same name in several folders stay apart.
std::string NameCut::module(const std::string& path) {
  if (!keeps_names_) {
    if (path == exe_) return "/cut/program";
    return "/cut/" + numbered(module_names_, path, "module-");
  }
  const std::string name(file_name_of(path));
  std::map<std::string, size_t>& folders = module_folders_[name];
  const auto folder = path.substr(0, path.size() - name.size());
  const size_t number = folders.try_emplace(folder, folders.size() + 1).first->second;
  return "/cut" + (number == 1 ? "" : "-" + std::to_string(number)) + "/" + name;
}

// "folder/libx.so+0x1a2b0()": of a label, which distinguishes modules by some of their folders.
std::string NameCut::start_name(const std::string& name) {
  const size_t plus = name.rfind('+');
  const std::string label = name.substr(0, plus);
  std::string cut;
  if (!keeps_names_) {
    cut = label == file_name_of(exe_) ? "program"
                                      : numbered(module_names_, "label " + label, "module-");
  } else {
    const std::string file(file_name_of(label));
    std::map<std::string, size_t>& folders = module_folders_["label " + file];
    const size_t number = folders.try_emplace(label, folders.size() + 1).first->second;
    cut = (number == 1 ? "" : "cut-" + std::to_string(number) + "/") + file;
  }
  return cut + name.substr(plus);
}

// Ruby calls a class without a name by its address: "#<Class:0x00007f3a58c01e40>". Different ones
// stay different.
std::string NameCut::kept_name(const std::string& name) {
  constexpr std::string_view kHex = "0x";
  constexpr size_t kLeastDigits = 8;
  const std::string plain = without_folders(name);
  std::string cut;
  size_t done = 0;
  for (size_t at = plain.find(kHex); at != std::string::npos; at = plain.find(kHex, at + 1)) {
    const size_t digits = at + kHex.size();
    const size_t end =
        std::min(plain.find_first_not_of("0123456789abcdefABCDEF", digits), plain.size());
    if (end - digits < kLeastDigits || (at > 0 && is_letter_or_digit(plain[at - 1]))) continue;
    cut += plain.substr(done, at - done);
    cut += numbered(addresses_, plain.substr(at, end - at), "address-");
    done = end;
  }
  return cut + plain.substr(done);
}

std::string NameCut::function(const std::string& name) {
  if (name.empty() || name == kEntryPointName) return name;
  if (is_name_of_start(name)) return start_name(name);
  if (keeps_names_) return kept_name(name);
  // Ways to malloc and what starts a thread are known to heapsnap by their names.
  const std::string plain = plain_name(name);
  if (!is_own(passed_.role_of(name)) && !is_own(passed_.role_of(plain))) {
    return kept_name(plain);
  }
  return numbered(functions_, name, "function_");
}

std::string NameCut::variable(const std::string& name) {
  if (name.empty() || keeps_names_ || name == kControlBlockName) return kept_name(name);
  return numbered(variables_, name, "variable_");
}

std::string NameCut::local(const std::string& name) {
  if (name.empty() || keeps_names_) return kept_name(name);
  const LocalName parts = split_local(name);
  // What no variable holds owns later, and may be left over: both are known by these words.
  const std::string told(parts.variable);
  const std::string cut_variable = is_temporary(name) ? told : variable(told);
  return local_name({cut_variable, function(std::string(parts.function)), "", 0});
}

std::string NameCut::type(const std::string& name, TypeSource source) {
  constexpr std::string_view kStorage = "thread-local storage of ";
  if (source == TypeSource::kStructure) {
    if (keeps_names_ || !name.starts_with(kStorage)) return kept_name(name);
    return std::string(kStorage) + numbered(module_names_, "label " + name, "module-");
  }
  if (name.empty() || keeps_names_) return kept_name(name);
  // What analyses go by is the language's and the library's, and stays.
  const BlockType type{name, "", source};
  if (source == TypeSource::kDebugInfo) {
    if (has_no_addresses(type) || is_storage(name)) return name;
    const std::string node(node_template(type));
    if (!node.empty()) return node + numbered(types_, name, "Type_") + ">";
    constexpr std::string_view kArray = "[]";
    if (name.ends_with(kArray)) {
      const std::string element = name.substr(0, name.size() - kArray.size());
      return numbered(types_, element, "Type_") + std::string(kArray);
    }
  }
  return numbered(types_, name, "Type_");
}

// Which blocks are classes and memory contexts, and what owns memory, is known by these words.
std::string NameCut::part(const std::string& name) {
  const bool is_known =
      name == kClassPart || name == kContextPart || std::ranges::count(kOwningImemos, name) != 0;
  if (is_known) return name;
  return type(name, TypeSource::kUnknown);
}

std::string NameCut::source_file(const std::string& path) const {
  return keeps_names_ ? std::string(file_name_of(path)) : std::string();
}

std::string NameCut::program_name() const {
  if (!keeps_names_ || exe_.empty()) return "program";
  return std::string(file_name_of(exe_)).substr(0, kLongestComm);
}

std::string NameCut::thread_name(const std::string& name) {
  if (name.empty()) return {};
  return name == comm_ ? program_name() : numbered(threads_named_, name, "thread-");
}

int64_t NameCut::thread(int64_t tid) {
  if (tid <= 0) return tid;
  return threads_.try_emplace(tid, static_cast<int64_t>(threads_.size()) + 1).first->second;
}

std::string NameCut::sentence(std::string_view text) {
  std::string cut;
  // A path may hold blanks: it goes to the end.
  const size_t slash = text.find('/');
  const bool has_path = slash != std::string_view::npos;
  if (has_path) text = text.substr(0, text.rfind(' ', slash) + 1);
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view token = text.substr(0, end);
    const bool is_word = std::all_of(token.begin(), token.end(), [](char letter) {
      return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
             std::string_view("-,.;:'()").find(letter) != std::string_view::npos;
    });
    if (is_word || !cut.ends_with(kCut)) {
      if (!cut.empty()) cut += ' ';
      cut += is_word ? token : kCut;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (has_path && !cut.ends_with(kCut)) cut += cut.empty() ? kCut : " ...";
  return cut;
}

std::string NameCut::allocator(const std::string& name) {
  if (!keeps_names_) {
    const auto found =
        std::find_if(modules_.begin(), modules_.end(),
                     [&name](const std::string& path) { return file_name_of(path) == name; });
    if (found != modules_.end()) return std::string(file_name_of(module(*found)));
  }
  return word(name);
}

std::string NameCut::word(const std::string& text) {
  const bool may_have_slash = text.starts_with("table ");  // of layouts: "table L2/P35"
  const bool is_one = text.size() <= kLongestWord &&
                      (may_have_slash || text.find('/') == std::string::npos) &&
                      std::all_of(text.begin(), text.end(), [](char letter) {
                        return is_letter_or_digit(letter) ||
                               std::string_view(" /-+~").find(letter) != std::string_view::npos;
                      });
  return is_one ? text : std::string();
}

}  // namespace heapsnap
