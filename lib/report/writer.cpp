#include "report/writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/error.h"
#include "snapshot/write_signals.h"

namespace heapsnap {

void throw_unwritten(const std::string& name, int error_number) {
  const std::string what = name + " cannot be written";
  const std::string why = errno_text(error_number);
  const std::string remedy = output_remedy(error_number);
  if (error_number == EPIPE) throw ReaderGone(ErrorKind::kOutput, what, why, remedy);
  throw Error(ErrorKind::kOutput, what, why, remedy);
}

Writer::Writer(int fd, std::string name)
    : buffer_(std::make_unique<char[]>(kCapacity)), fd_(fd), name_(std::move(name)) {}

Writer::Writer(OutputFile& file) : buffer_(std::make_unique<char[]>(kCapacity)), file_(&file) {}

Writer::Writer(std::string& text) : buffer_(std::make_unique<char[]>(kCapacity)), text_(&text) {}

void Writer::write_large(std::string_view text) {
  flush();
  if (text.size() > kCapacity) {
    drain(text);
  } else {
    write(text);
  }
}

void Writer::flush() {
  // Emptied first: after an error the same bytes are not tried again.
  const std::string_view pending(buffer_.get(), used_);
  used_ = 0;
  drain(pending);
}

void Writer::drain(std::string_view text) {
  if (text_ != nullptr) {
    text_->append(text);
    return;
  }
  if (file_ != nullptr) {
    file_->append(std::as_bytes(std::span(text)));
    return;
  }
  const WriteSignalsHeld held;
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) {
        // Somebody who shares the terminal or pipe made it non-blocking.
        pollfd ready{fd_, POLLOUT, 0};
        ::poll(&ready, 1, -1);
        continue;
      }
      throw_unwritten(name_, errno);
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace heapsnap
