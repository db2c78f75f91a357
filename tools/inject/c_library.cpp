#include "tools/inject/c_library.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/file_name.h"
#include "heap/discovery/allocator_survey.h"
#include "heap/discovery/loaded_files.h"
#include "heap/discovery/malloc_candidates.h"
#include "heap/discovery/malloc_code_range.h"
#include "heap/discovery/malloc_tls.h"
#include "heap/discovery/module_bytes.h"
#include "heap/malloc_layout.h"
#include "tools/inject/delicate_code.h"
#include "tools/inject/hook_page.h"
#include "tracking/tracker_library.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargestInitialImage = 1 << 20;
// ld.so maps and relocates one library after the other.
constexpr std::chrono::milliseconds kLongestLoading{500};
constexpr std::chrono::milliseconds kBetweenLooksAtLibraries{50};

std::string process_name(const Target& target) {
  return "process " + std::to_string(target.process().pid) + " (" + target.process().comm + ")";
}

[[noreturn]] void refuse_thread(const Target& target, const std::string& why,
                                const std::string& remedy) {
  throw Error(ErrorKind::kUnsupported, "no thread can be created in " + process_name(target), why,
              remedy);
}

// A file may be loaded more than once: dlmopen(3) loads libraries beside those of the program, the
// C library too, and these may be gone at any moment.
struct OpenedLibrary {
  LoadedLibrary library;
  std::vector<Address> load_biases;
};

std::optional<OpenedLibrary> open_library(Target& target, const LoadedFile& file) {
  std::optional<MappedFile> mapped = target.open_file(file.mappings.front());
  if (!mapped) return std::nullopt;
  try {
    ElfImage image = ElfImage::from_file(std::move(*mapped), file.path);
    const std::vector<Address> biases = load_biases(image, file);
    if (biases.empty()) return std::nullopt;
    return OpenedLibrary{{std::move(image), file.path, biases.back()}, biases};
  } catch (const Error&) {
    return std::nullopt;  // code that is mapped but no ELF file
  }
}

bool is_loader(const LoadedLibrary& library) {
  return exports(library.image, "_r_debug") && exports(library.image, "__tls_get_addr");
}

// Where the loader has the libraries of the program itself (struct r_debug and link_map, link.h).
std::vector<Address> program_biases(Target& target, const LoadedLibrary& loader) {
  struct LinkMap {
    uint64_t load_bias, name, dynamic, next, previous;
  };
  constexpr uint64_t kFirst = 8;  // r_map
  constexpr size_t kMost = 10'000;
  std::vector<Address> biases;
  auto next = target.memory().read_value<uint64_t>(exported_address(loader, "_r_debug") + kFirst);
  while (next && *next != 0 && biases.size() < kMost) {
    const auto map = target.memory().read_value<LinkMap>(Address(*next));
    if (!map) break;
    biases.emplace_back(map->load_bias);
    next = map->next;
  }
  return biases;
}

void choose_bias(OpenedLibrary& opened, const std::vector<Address>& biases) {
  const auto found = std::find_first_of(opened.load_biases.begin(), opened.load_biases.end(),
                                        biases.begin(), biases.end());
  if (found != opened.load_biases.end()) opened.library.load_bias = *found;
}

bool is_part_of_glibc(const LoadedLibrary& library) {
  const std::string_view name = file_name_of(library.path);
  return is_loader(library) || name.starts_with("libpthread") || name.starts_with("libdl");
}

// Nothing can be hooked but glibc's malloc, where calls reach it.
void check_allocator(const Target& target, const AllocatorVerdict& allocator) {
  const bool is_foreign = allocator.kind == AllocatorVerdict::Kind::kForeign;
  if (!is_foreign && !allocator.checker.empty()) {
    refuse_thread(target,
                  "malloc is answered by " + allocator.checker +
                      ", which may keep blocks of its own that the tracker does not see",
                  "start it without that library, or look at its heap: heapsnap attach " +
                      std::to_string(target.process().pid));
  }
  if (!is_foreign && allocator.interposer.empty()) return;
  refuse_thread(target,
                "malloc is provided by " +
                    (is_foreign ? allocator.name + ", " + allocator.file : allocator.interposer) +
                    ", and heapsnap supports glibc's only",
                "start it without that allocator, or look at its mappings: heapsnap attach " +
                    std::to_string(target.process().pid));
}

// Code of a tracker that is at work: it calls the allocator, and the allocator it.
void add_tracker_code(Target& target, DelicateCode& code) {
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (!mapping.executable) continue;
    const bool may_be_hooks = mapping.is_anonymous() && mapping.range.size() == HookPage::kSize;
    if (is_tracker_library(mapping.path) ||
        (may_be_hooks && read_hook_page(target.memory(), mapping.range.begin))) {
      code.add(mapping.range);
    }
  }
}

// Of fork also what runs in its name: the handlers of pthread_atfork return into it. brk and sbrk
// are what malloc calls as well, and take no lock.
void add_functions(const LoadedLibrary& library, DelicateCode& code) {
  for (const std::string_view name : {"fork", "_Fork", "pthread_create", "brk", "sbrk"}) {
    const Address begin = exported_address(library, name);
    if (!begin.is_null()) code.add({begin, begin + library.image.find_symbol(name)->size});
  }
}

}  // namespace

Address exported_address(const LoadedLibrary& library, std::string_view name) {
  if (!exports(library.image, name)) return {};
  const ElfSymbol* const symbol = library.image.find_symbol(name);
  return symbol == nullptr ? Address() : library.load_bias + symbol->value;
}

CLibrary::CLibrary(LoadedLibrary libc, std::vector<LoadedLibrary> parts)
    : libc_(std::move(libc)),
      parts_(std::move(parts)),
      version_(guess_glibc_version(libc_.image, libc_.path).version) {}

CLibrary CLibrary::find(RunningProgram& target) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestLoading;
  while (true) {
    try {
      return find_now(target);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUnsupported || std::chrono::steady_clock::now() >= deadline) {
        throw;
      }
    }
    std::this_thread::sleep_for(kBetweenLooksAtLibraries);
    target.look_again();
  }
}

CLibrary CLibrary::find_now(Target& target) {
  std::optional<OpenedLibrary> libc;
  std::vector<OpenedLibrary> opened_parts;
  bool has_interpreter = false;
  AllocatorSurvey survey;
  for (const LoadedFile& file : files_with_code(target.address_space())) {
    std::optional<OpenedLibrary> opened = open_library(target, file);
    if (!opened) continue;
    const LoadedLibrary& library = opened->library;
    has_interpreter = has_interpreter || library.image.has_interpreter();
    survey.add(library.image, library.path, file.mappings.front().deleted);
    if (exports(library.image, "gnu_get_libc_version")) {
      libc = std::move(opened);
    } else if (is_part_of_glibc(library)) {
      opened_parts.push_back(std::move(*opened));
    }
  }
  check_allocator(target, survey.verdict());
  if (!libc) {
    refuse_thread(target,
                  has_interpreter ? "its C library is not glibc (musl?)"
                                  : "it is statically linked: nothing can be loaded into it",
                  "take a snapshot without the tracker: heapsnap attach " +
                      std::to_string(target.process().pid));
  }
  std::vector<Address> biases;
  for (const OpenedLibrary& part : opened_parts) {
    if (biases.empty() && is_loader(part.library)) biases = program_biases(target, part.library);
  }
  choose_bias(*libc, biases);
  std::vector<LoadedLibrary> parts;
  for (OpenedLibrary& part : opened_parts) {
    choose_bias(part, biases);
    parts.push_back(std::move(part.library));
  }
  CLibrary found(std::move(libc->library), std::move(parts));
  found.read_layout(target);
  return found;
}

Address CLibrary::find_function(std::string_view name) const {
  const Address in_libc = exported_address(libc_, name);
  if (!in_libc.is_null()) return in_libc;
  for (const LoadedLibrary& part : parts_) {
    const Address address = exported_address(part, name);
    if (!address.is_null()) return address;
  }
  return {};
}

Address CLibrary::function(std::string_view name) const {
  const Address address = find_function(name);
  if (address.is_null()) {
    throw Error(ErrorKind::kUnsupported, libc_.path + " has no " + std::string(name),
                "it is glibc " + std::to_string(version_.major) + "." +
                    std::to_string(version_.minor) + ", which should have it");
  }
  return address;
}

void CLibrary::read_layout(Target& target) {
  layout_.pthread_create = find_function("pthread_create");
  if (layout_.pthread_create.is_null()) {
    refuse_thread(target,
                  "it runs without libpthread, which glibc needs for threads before version 2.34",
                  "start it with LD_PRELOAD=libpthread.so.0");
  }
  const auto delicate = std::make_shared<DelicateCode>(target.address_space(), target.memory());
  layout_.relies_on_being_alone = [delicate](const user_regs_struct& registers) {
    return delicate->may_hold(registers);
  };
  if (const AddressRange text = find_malloc_text(libc_.image, libc_.image); !text.is_empty()) {
    delicate->add({libc_.load_bias + text.begin.value(), libc_.load_bias + text.end.value()});
  }
  add_functions(libc_, *delicate);
  // Known by the same word to itself and to everybody else since 2.35; before, each thread has one.
  if (version_.major > 2 || version_.minor >= 35) {
    layout_.single_threaded = exported_address(libc_, "__libc_single_threaded");
  }
  for (const LoadedLibrary& part : parts_) {
    add_functions(part, *delicate);
    if (!is_loader(part)) continue;
    const AddressRange code = all_code(part.image);
    delicate->add({part.load_bias + code.begin.value(), part.load_bias + code.end.value()});
    const Address offset = exported_address(part, "__rseq_offset");
    if (!offset.is_null()) layout_.rseq_offset = target.memory().read_value<int64_t>(offset);
  }
  add_tracker_code(target, *delicate);
  const ElfSegment* const tls = libc_.image.tls_segment();
  if (tls == nullptr || tls->file_size > tls->memory_size ||
      tls->memory_size > kLargestInitialImage) {
    refuse_thread(target, libc_.path + " has no thread-local variables, unlike every glibc", "");
  }
  MallocTls words = read_malloc_tls(libc_.image, false);
  for (MallocTls::Word& word : words.words) word.word = libc_.load_bias + word.word.value();
  const auto offset = vote_tls_offset(target.memory(), words, 8);
  std::vector<std::byte> initial(tls->file_size);
  // As the loader has relocated it, which the file is not.
  if (!offset || *offset >= 0 ||
      !target.memory().read_exact(libc_.load_bias + tls->address, initial)) {
    refuse_thread(target, "the thread-local variables of " + libc_.path + " were not found", "");
  }
  initial.resize(tls->memory_size);
  layout_.variables = {*offset, std::move(initial)};
  const auto layout = MallocLayout::for_version(libc_.image.machine(), version_);
  if (!layout) return;
  const auto arenas = find_self_pointing_arenas(libc_.image, {*layout});
  if (arenas.size() == 1) layout_.main_arena = libc_.load_bias + arenas.front();
}

}  // namespace heapsnap
