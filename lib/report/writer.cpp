#include "report/writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/error.h"
#include "snapshot/write_signals.h"

namespace heapsnap {

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
      const std::string what = name_ + " cannot be written";
      if (errno == EPIPE) {
        throw ReaderGone(ErrorKind::kOutput, what, errno_text(EPIPE), output_remedy(EPIPE));
      }
      throw Error(ErrorKind::kOutput, what, errno_text(errno), output_remedy(errno));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace heapsnap
