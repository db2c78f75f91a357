#include "snapshot/section_stream.h"

#include "base/error.h"

namespace heapsnap {

SectionStream::SectionStream(const std::string& path, bool overwrite, int folder, int file)
    : file_(path, overwrite, OutputFile::Temporary::kUnnamedIfPossible, folder, file),
      spool_(file_.directory()) {
  file_.append(encode_file_header());
}

void SectionStream::add(const Section& section) {
  if (deferred_) {
    spool_.add(section);
  } else {
    write(section);
  }
}

void SectionStream::set_deferred(bool deferred) {
  deferred_ = deferred;
  if (deferred) return;
  Direct direct(*this);
  spool_.drain(direct);
}

void SectionStream::write(const Section& section) {
  const auto bytes = encoder_.encode(section);
  index_.push_back(
      {section.kind, Address(file_.size()), bytes.size(), section.items, section.begin});
  file_.append(bytes);
}

uint64_t SectionStream::finish() {
  set_deferred(false);
  const uint64_t index_offset = file_.size();
  const std::vector<IndexEntry> entries = std::move(index_);
  Direct direct(*this);
  write_index(entries, direct);
  Footer footer;
  footer.index_offset = index_offset;
  footer.index_length = file_.size() - index_offset;
  footer.file_size = file_.size() + format::kFooterSize;
  file_.append(encode_footer(footer));
  file_.commit();
  return file_.size();
}

}  // namespace heapsnap
