#include "elf/debuginfod_client.h"

#include <dlfcn.h>
#include <elfutils/debuginfod.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/unique_fd.h"

namespace heapsnap {

namespace {

template <typename Function>
Function* entry(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

// Null: not installed. Never unloaded: libcurl keeps state of its own until the process ends.
void* loaded_library() {
  return ::dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_LOCAL);
}

}  // namespace

std::string why_debuginfod_is_not_asked() {
  const char* const servers = std::getenv("DEBUGINFOD_URLS");
  if (servers == nullptr || *servers == 0) return "DEBUGINFOD_URLS names no server";
  return loaded_library() == nullptr ? "libdebuginfod.so.1 is not installed" : "";
}

std::optional<MappedFile> ask_debuginfod(const std::string& build_id) {
  void* const library = loaded_library();
  if (library == nullptr) return std::nullopt;
  const auto begin = entry<decltype(debuginfod_begin)>(library, "debuginfod_begin");
  const auto end = entry<decltype(debuginfod_end)>(library, "debuginfod_end");
  const auto find =
      entry<decltype(debuginfod_find_debuginfo)>(library, "debuginfod_find_debuginfo");
  if (begin == nullptr || end == nullptr || find == nullptr) return std::nullopt;

  const std::unique_ptr<debuginfod_client, void (*)(debuginfod_client*)> client(begin(), end);
  if (!client) return std::nullopt;
  // Length 0: the build-id is text.
  const auto* text = reinterpret_cast<const unsigned char*>(build_id.c_str());
  UniqueFd fd(find(client.get(), text, 0, nullptr));
  if (!fd) return std::nullopt;
  try {
    return MappedFile::from_fd(std::move(fd), "debuginfod:" + build_id);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace heapsnap
