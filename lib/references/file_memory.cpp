#include "references/file_memory.h"

#include <optional>
#include <unordered_set>

#include "target/page_cache.h"

namespace heapsnap {

namespace {

constexpr size_t kMostFiles = 1 << 16;
constexpr uint64_t kLargestBuffer = uint64_t{1} << 40;
// Of _flags: the buffer is one that setvbuf(3) was given.
constexpr uint64_t kUserBuffer = 1;
// In words of the machine.
constexpr unsigned kReadAt = 1;
constexpr unsigned kReadEndAt = 2;
constexpr unsigned kWriteBaseAt = 4;
constexpr unsigned kWriteAt = 5;
constexpr unsigned kBufferAt = 7;
constexpr unsigned kBufferEndAt = 8;
constexpr unsigned kNextAt = 13;
// Of 64-bit machines, in bytes: numbers, of which fopen(3) leaves _old_offset as it was.
constexpr uint64_t kNumbersAt = 112;
constexpr uint64_t kNumbersEnd = 136;
constexpr uint64_t kOffsetAt = 144;
// _freeres_buf to _unused2, and of struct _IO_wide_data what is between its pointers and its
// functions. These and _codecvt are for wide characters, or for nothing.
constexpr uint64_t kCodecAt = 152;
constexpr uint64_t kPaddingAt = 176;
constexpr uint64_t kPaddingEnd = 216;
constexpr uint64_t kModeAt = 192;
constexpr uint64_t kWideDataAt = 160;
constexpr uint64_t kStatesAt = 88;
constexpr uint64_t kStatesEnd = 224;
constexpr uint64_t kFarthestWideData = 512;  // where fopen(3) has it

class Files {
 public:
  Files(Target& target, BlockTypeList& types)
      : cache_(target.memory()), word_(word_size(target.process().machine)), types_(types) {}

  void add_list(Address first, const std::string& module) {
    auto at = cache_.word(first, word_);
    while (at && *at != 0 && seen_.size() < kMostFiles && seen_.insert(*at).second) {
      const Address file(*at);
      const auto magic = cache_.word(file, word_);
      if (!magic || !may_begin_structure(*magic)) return;
      if ((*magic & kUserBuffer) == 0) add_buffer(file, module);
      if (word_ == sizeof(uint64_t)) add_unset(file);
      at = word_at(file, kNextAt);
    }
  }
  FileMemory take() { return std::move(found_); }

 private:
  std::optional<uint64_t> word_at(Address file, unsigned index) {
    return cache_.word(file + uint64_t{index} * word_, word_);
  }

  void add_buffer(Address file, const std::string& module) {
    const auto begin = word_at(file, kBufferAt);
    const auto end = word_at(file, kBufferEndAt);
    if (!begin || !end || *begin == 0 || *end <= *begin || *end - *begin > kLargestBuffer) return;
    found_.buffers.push_back(
        {Address(*begin), types_.add({std::string(kFileBuffer), module, TypeSource::kStructure})});
    // What is not read yet, or not written, may be addresses that the program will have again.
    const AddressRange waits =
        either(pending(file, kReadAt, kReadEndAt), pending(file, kWriteBaseAt, kWriteAt));
    const AddressRange buffer{Address(*begin), Address(*end)};
    if (!buffer.contains(waits.begin) || waits.end > buffer.end) {
      found_.unset.push_back(buffer);
      return;
    }
    found_.unset.push_back({buffer.begin, waits.begin});
    found_.unset.push_back({waits.end, buffer.end});
  }

  // Empty: nothing.
  AddressRange pending(Address file, unsigned begin_at, unsigned end_at) {
    const auto begin = word_at(file, begin_at);
    const auto end = word_at(file, end_at);
    return begin && end && *begin < *end ? AddressRange{Address(*begin), Address(*end)}
                                         : AddressRange{};
  }
  // A FILE is read or written at a time.
  static const AddressRange& either(const AddressRange& a, const AddressRange& b) {
    return a.is_empty() ? b : a;
  }

  void add_unset(Address file) {
    found_.unset.push_back({file + kNumbersAt, file + kNumbersEnd});
    found_.unset.push_back({file + kOffsetAt, file + kOffsetAt + word_});
    const auto mode = cache_.word(file + kModeAt, sizeof(int32_t));
    const auto wide = cache_.word(file + kWideDataAt, word_);
    if (!mode || static_cast<int32_t>(*mode) > 0) return;
    found_.unset.push_back({file + kCodecAt, file + kCodecAt + word_});
    found_.unset.push_back({file + kPaddingAt, file + kPaddingEnd});
    if (!wide || *wide < file.value() || *wide - file.value() > kFarthestWideData) return;
    found_.unset.push_back({Address(*wide) + kStatesAt, Address(*wide) + kStatesEnd});
  }

  PageCache cache_;
  unsigned word_;
  BlockTypeList& types_;
  std::unordered_set<uint64_t> seen_;  // of all lists
  FileMemory found_;
};

}  // namespace

std::vector<FileList> file_lists(const LoadedModules& modules) {
  std::vector<FileList> lists;
  for (const LoadedModule& module : modules.all()) {
    const ElfSymbol* const first = module.image().find_dynamic_symbol("_IO_list_all");
    if (first != nullptr && first->value != 0) {
      lists.push_back({module.bias + first->value, module.path()});
    }
  }
  return lists;
}

FileMemory find_file_memory(Target& target, std::span<const FileList> lists, BlockTypeList& types) {
  Files files(target, types);
  for (const FileList& list : lists) files.add_list(list.first, list.module);
  return files.take();
}

}  // namespace heapsnap
