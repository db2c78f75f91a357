#include "runtime/ruby/ruby_io_buffers.h"

#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

void RubyIoBuffers::add_of(Address io) {
  constexpr size_t kMost = 1 << 20;
  constexpr uint32_t kWord = 8;
  if (!RubyValue::is_object(io.value()) || count_ >= kMost) return;
  ++count_;
  for (const uint32_t buffer : {layout_.io_wbuf, layout_.io_rbuf, layout_.io_cbuf}) {
    const Address characters(cache_.word(io + buffer, 8).value_or(0));
    if (!RubyValue::is_object(characters.value())) continue;
    objects_.add_block(characters, buffer_, [] {
      ObjectClass made;
      made.name = "IO buffer";
      made.skip = ObjectClass::kNoReferences;
      made.is_exact = true;
      return made;
    });
    if (!(io + buffer).is_aligned(kWord)) {
      objects_.listed.push_back({io, characters, buffer / kWord});
    }
  }
}

}  // namespace heapsnap
