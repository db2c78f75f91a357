#include "platform/linux/proc/kernel_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include "base/unique_fd.h"

namespace heapsnap {

std::optional<std::string> read_kernel_text(const std::string& path, size_t limit) {
  // O_NONBLOCK: a fifo in a folder that is not the kernel's must not block us.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return std::nullopt;
  std::string text;
  // Files of /proc have no size, and one read of many of them returns at most a page.
  char buffer[4096];
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof(buffer));
    if (count == 0) return text;
    if (count < 0) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    if (static_cast<size_t>(count) > limit - text.size()) {
      errno = EFBIG;
      return std::nullopt;
    }
    text.append(buffer, static_cast<size_t>(count));
  }
}

std::string kernel_text_or_empty(const std::string& path) {
  return read_kernel_text(path).value_or(std::string());
}

std::string link_target_or_empty(const std::string& path) {
  std::array<char, 4096> target;
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length < 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::optional<std::string_view> take_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

std::optional<std::string_view> status_field(std::string_view text, std::string_view key) {
  while (const std::optional<std::string_view> line = take_line(text)) {
    if (line->size() > key.size() && line->starts_with(key) && (*line)[key.size()] == ':') {
      return trimmed(line->substr(key.size() + 1));
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> status_number(std::string_view text, std::string_view key) {
  const std::optional<std::string_view> value = status_field(text, key);
  if (!value) return std::nullopt;
  const size_t end = value->find_first_not_of("0123456789");
  return parse_number(value->substr(0, end));
}

std::optional<uint64_t> status_bytes(std::string_view text, std::string_view key) {
  const std::optional<uint64_t> kilobytes = status_number(text, key);
  if (!kilobytes || *kilobytes > UINT64_MAX / 1024) return std::nullopt;
  return *kilobytes * 1024;
}

std::optional<uint64_t> parse_number(std::string_view text, int base) {
  text = trimmed(text);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace heapsnap
