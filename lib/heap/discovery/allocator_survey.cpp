#include "heap/discovery/allocator_survey.h"

#include <elf.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "heap/discovery/foreign_allocator.h"
#include "heap/discovery/loaded_files.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

// ld.so exported a malloc of its own up to glibc 2.30; the tracker's passes calls on.
bool is_no_allocator(const ElfImage& image) {
  return (exports(image, "_r_debug") && exports(image, "__tls_get_addr")) ||
         exports(image, "heapsnap_tracker_directory");
}

bool is_glibc(const ElfImage& image) {
  return exports(image, "gnu_get_libc_version");
}

// libc_malloc_debug.so.0 is glibc's malloc with checks; malloc_info and malloc_trim are glibc's
// own.
bool has_glibc_malloc(const ElfImage& image) {
  return exports(image, "malloc_info") && exports(image, "malloc_trim");
}

bool is_c_library(const std::string& allocator) {
  return allocator == "musl" || allocator == "bionic";
}

}  // namespace

void AllocatorSurvey::add(const ElfImage& image, const std::string& path, bool deleted) {
  if (is_no_allocator(image)) return;
  if (is_glibc(image)) {
    glibc_ = {AllocatorVerdict::Kind::kGlibc, {}, path, deleted, {}, {}, {}};
    return;
  }
  const bool is_static = is_static_executable(image);
  const bool answers = exports(image, "malloc");
  const std::string name = foreign_allocator_in(image, path);
  if (name.empty()) {
    if (is_static && has_constant(image, "free(): invalid pointer")) {
      glibc_ = {AllocatorVerdict::Kind::kStaticGlibc, {}, path, deleted, {}, {}, {}};
    } else if (answers) {
      std::string& in_front = has_glibc_malloc(image) ? checker_ : interposer_;
      if (in_front.empty()) in_front = path;
    }
    return;
  }
  const bool is_all = is_static && glibc_.kind == AllocatorVerdict::Kind::kUnknown;
  if (answers || is_all || is_c_library(name)) {
    if (foreign_.name.empty() || is_c_library(foreign_.name)) {
      foreign_ = {AllocatorVerdict::Kind::kForeign, name, path, deleted, {}, {}, {}};
    }
  } else if (std::find(beside_.begin(), beside_.end(), name) == beside_.end()) {
    beside_.push_back(name);
  }
}

AllocatorVerdict AllocatorSurvey::verdict() const {
  AllocatorVerdict verdict = foreign_.name.empty() ? glibc_ : foreign_;
  verdict.beside = beside_;
  verdict.interposer = interposer_;
  verdict.checker = checker_;
  return verdict;
}

AllocatorVerdict survey_allocators(Target& target) {
  AllocatorSurvey survey;
  for (const LoadedFile& file : files_with_code(target.address_space())) {
    const Mapping& mapping = file.mappings.front();
    try {
      auto opened = target.open_file(mapping);
      if (!opened) continue;
      survey.add(ElfImage::from_file(*std::move(opened), file.path), file.path, mapping.deleted);
    } catch (const Error&) {
      // Code that is mapped but no ELF file.
    }
  }
  return survey.verdict();
}

}  // namespace heapsnap
