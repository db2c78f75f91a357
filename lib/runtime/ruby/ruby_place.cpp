#include "runtime/ruby/ruby_place.h"

#include <elf.h>

#include <algorithm>
#include <charconv>

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_value.h"
#include "target/page_cache.h"

namespace heapsnap {

namespace {

// ruby_version: "3.1.2", as a constant array.
std::string release_of(const ElfImage& image) {
  constexpr uint64_t kLongest = 32;
  const ElfSymbol* const symbol = image.find_dynamic_symbol("ruby_version");
  if (symbol == nullptr || symbol->size > kLongest) return {};
  const auto bytes = image.bytes_at(symbol->value, symbol->size);
  std::string text;
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    if ((c < '0' || c > '9') && c != '.') break;
    text += c;
  }
  return text;
}

// The first two numbers of "3.1.2".
bool parse_version(const std::string& text, unsigned& major, unsigned& minor) {
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return false;
  return std::from_chars(first.ptr + 1, end, minor).ec == std::errc();
}

void choose_layouts(RubyPlace& place, Machine machine) {
  unsigned major = 0;
  unsigned minor = 0;
  if (machine == Machine::kI386) {
    place.why_not = "it is a 32-bit program";
  } else if (!parse_version(place.version, major, minor)) {
    place.why_not = "its version cannot be read";
  } else {
    place.layouts = ruby_layouts(major, minor);
    // One that is known to the patch is the only one to be tried.
    for (const RubyLayout* const layout : place.layouts) {
      if (layout->version() == place.version) {
        place.layouts = {layout};
        break;
      }
    }
    if (place.layouts.empty()) {
      place.why_not = "heapsnap does not know how Ruby " + place.version +
                      " lays out its memory (it knows " + known_ruby_versions() + ")";
    }
  }
}

}  // namespace

std::vector<RubyPlace> find_rubies(Target& target, const LoadedModules& modules) {
  std::vector<RubyPlace> places;
  if (word_size(target.process().machine) != 8) return places;
  for (uint32_t i = 0; i < modules.all().size(); ++i) {
    const LoadedModule& module = modules[i];
    RubyPlace place;
    const std::pair<const char*, Address*> variables[] = {{"rb_cObject", &place.object_class},
                                                          {"rb_mKernel", &place.kernel_module},
                                                          {"rb_cRubyVM", &place.machine_class},
                                                          {"rb_cString", &place.string_class}};
    const bool has_all =
        std::all_of(std::begin(variables), std::end(variables), [&](const auto& variable) {
          const ElfSymbol* const symbol = module.image().find_dynamic_symbol(variable.first);
          if (symbol != nullptr) *variable.second = module.bias + symbol->value;
          return symbol != nullptr;
        });
    if (!has_all) continue;
    place.module = module.path();
    place.version = release_of(module.image());
    place.data = modules.segments(i, PF_R | PF_W, PF_R | PF_W);
    choose_layouts(place, module.image().machine());
    places.push_back(std::move(place));
  }
  return places;
}

RubyMachine find_ruby_machine(Target& target, const RubyPlace& place, const RubyLayout& layout) {
  constexpr uint64_t kMostData = 256 << 20;
  MemoryReader& memory = target.memory();
  PageCache cache(memory);
  const auto machine_class = memory.read_value<uint64_t>(place.machine_class);
  if (!machine_class) return {{}, {}, "its rb_cRubyVM cannot be read"};
  if (*machine_class == 0) return {{}, {}, "it was not started yet: there is no class RubyVM"};
  RubyMachine found;
  for (const AddressRange& range : place.data) {
    std::vector<std::byte> data(std::min(range.size(), kMostData));
    data.resize(memory.read(range.begin, data));
    const StructBytes words(data, 8);
    for (size_t offset = 0; offset + 8 <= data.size(); offset += 8) {
      const Address vm(words.word_at(offset));
      if (vm.is_null() || !vm.is_aligned(8) || target.address_space().find(vm) == nullptr) continue;
      const auto self = cache.word(vm + layout.vm_self, 8);
      if (!self || !RubyValue::is_object(*self)) continue;
      const auto flags = cache.word(Address(*self), 8);
      if (!flags || RubyValue::type_of(*flags) != RubyType::kData) continue;
      if (cache.word(Address(*self) + RubyValue::kClass, 8) != machine_class) continue;
      if (cache.word(Address(*self) + RubyValue::kDataPointer, 8) != vm.value()) continue;
      if (!found.vm.is_null() && found.vm != vm) {
        return {{}, {}, "several places look like the state of its interpreter"};
      }
      found.vm = vm;
    }
  }
  if (found.vm.is_null()) {
    return {{},
            {},
            "the state of its interpreter was not found: no pointer in its data leads to a "
            "rb_vm_t whose `self` leads back"};
  }
  const auto space = cache.word(found.vm + layout.vm_objspace, 8);
  if (!space || *space == 0 || target.address_space().find(Address(*space)) == nullptr) {
    return {{}, {}, "its rb_vm_t leads to no object space"};
  }
  found.space = Address(*space);
  return found;
}

}  // namespace heapsnap
