#include "tools/heapsnap/program_allocator.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_name.h"
#include "base/mapped_file.h"
#include "heap/discovery/allocator_survey.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

constexpr int kMostInterpreters = 4;  // of scripts, as the kernel has it

// As execvp(3) looks for it.
std::optional<std::string> find_program(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* const variable = std::getenv("PATH");
  std::string_view folders = variable == nullptr ? "/bin:/usr/bin" : variable;
  while (true) {
    const size_t end = folders.find(':');
    const std::string folder(folders.substr(0, end));
    const std::string path = (folder.empty() ? "." : folder) + "/" + command;
    if (::access(path.c_str(), X_OK) == 0) return path;
    if (end == std::string_view::npos) return std::nullopt;
    folders.remove_prefix(end + 1);
  }
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of "#!/usr/bin/python3 -B"; empty where there is none.
std::string script_interpreter(std::string_view text) {
  if (!text.starts_with("#!")) return {};
  text = text.substr(2, text.find('\n') - 2);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return std::string(text.substr(0, text.find_first_of(" \t")));
}

// The path in PT_INTERP.
std::string loader_of(const ElfImage& image) {
  constexpr uint32_t kInterpreter = 3;
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != kInterpreter) continue;
    const std::string_view path = text_of(image.bytes_at(segment.address, segment.file_size));
    return std::string(path.substr(0, path.find('\0')));
  }
  return {};
}

std::string quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// Lines of ld.so --list: "libc.so.6 => /lib/libc.so.6 (0x...)", "/lib64/ld-linux.so.2 (0x...)".
std::vector<std::string> listed_libraries(const std::string& loader, const std::string& program) {
  const std::string command = quoted(loader) + " --list " + quoted(program) + " 2>/dev/null";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "re"),
                                                             ::pclose);
  std::vector<std::string> libraries;
  if (!pipe) return libraries;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    const std::string_view text = line.data();
    const size_t begin = text.find('/');
    const size_t end = text.rfind(" (0x");
    if (begin != std::string_view::npos && end != std::string_view::npos && begin < end) {
      libraries.emplace_back(text.substr(begin, end - begin));
    }
  }
  return libraries;
}

void survey_file(AllocatorSurvey& survey, const std::string& path) {
  try {
    survey.add(ElfImage::from_file(MappedFile::open(path), path), path);
  } catch (const Error&) {
    // The loader will say what is wrong with it.
  }
}

}  // namespace

std::optional<ProgramAllocator> allocator_of_program(const std::string& command) {
  std::optional<std::string> path = find_program(command);
  for (int i = 0; path && i < kMostInterpreters; ++i) {
    try {
      MappedFile file = MappedFile::open(*path);
      if (const std::string interpreter = script_interpreter(text_of(file.bytes()));
          !interpreter.empty()) {
        path = find_program(interpreter);
        continue;
      }
      const ElfImage image = ElfImage::from_file(std::move(file), *path);
      AllocatorSurvey survey;
      survey.add(image, *path);
      const std::string loader = loader_of(image);
      // musl's loader is its C library.
      if (!loader.empty()) survey_file(survey, loader);
      if (file_name_of(loader).starts_with("ld-linux")) {
        for (const std::string& library : listed_libraries(loader, *path)) {
          survey_file(survey, library);
        }
      }
      return ProgramAllocator{*path, !loader.empty(), survey.verdict()};
    } catch (const Error&) {
      return std::nullopt;  // no ELF file
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
