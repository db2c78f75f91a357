#include "references/file_memory.h"

#include "target/page_cache.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostFiles = 1 << 20;
constexpr uint64_t kLargestBuffer = uint64_t{1} << 40;
// In words of the machine.
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
    for (uint64_t files = 0; at && *at != 0 && files < kMostFiles; ++files) {
      const Address file(*at);
      const auto magic = cache_.word(file, word_);
      if (!magic || !may_begin_structure(*magic)) return;
      add_buffer(file, module);
      if (word_ == sizeof(uint64_t)) add_unset(file);
      at = cache_.word(file + uint64_t{kNextAt} * word_, word_);
    }
  }
  FileMemory take() { return std::move(found_); }

 private:
  void add_buffer(Address file, const std::string& module) {
    const auto begin = cache_.word(file + uint64_t{kBufferAt} * word_, word_);
    const auto end = cache_.word(file + uint64_t{kBufferEndAt} * word_, word_);
    if (!begin || !end || *begin == 0 || *end <= *begin || *end - *begin > kLargestBuffer) return;
    found_.buffers.push_back(
        {Address(*begin), types_.add({"FILE buffer", module, TypeSource::kStructure})});
    found_.unset.push_back({Address(*begin), Address(*end)});
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
  FileMemory found_;
};

}  // namespace

FileMemory find_file_memory(Target& target, const LoadedModules& modules, BlockTypeList& types) {
  Files files(target, types);
  for (const LoadedModule& module : modules.all()) {
    const ElfSymbol* const first = module.image().find_dynamic_symbol("_IO_list_all");
    if (first != nullptr && first->value != 0) {
      files.add_list(module.bias + first->value, module.path());
    }
  }
  return files.take();
}

}  // namespace heapsnap
