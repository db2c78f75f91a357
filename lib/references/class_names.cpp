#include "references/class_names.h"

#include <algorithm>
#include <array>

#include "tracking/demangle.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestTypeName = 4096;

// What follows `prefix` in the demangled name; empty when that is not what it is.
std::string demangled_after(const std::string& mangled, std::string_view prefix) {
  const std::string text = demangled(mangled.c_str());
  if (!text.starts_with(prefix) || text.size() == prefix.size()) return {};
  return text.substr(prefix.size());
}

}  // namespace

std::string class_of_type_name(std::string_view name) {
  if (name.starts_with('*')) name.remove_prefix(1);
  // Names of classes: nested (N), of the standard library (St, Ss ...), local (Z) or plain (a
  // number). Others are builtin types, pointers and functions, which have no vtables.
  const bool is_class = !name.empty() && (name[0] == 'N' || name[0] == 'S' || name[0] == 'Z' ||
                                          (name[0] >= '1' && name[0] <= '9'));
  if (!is_class) return {};
  return demangled_after("_ZTI" + std::string(name), "typeinfo for ");
}

std::string class_of_vtable_symbol(std::string_view symbol) {
  if (!symbol.starts_with("_ZTV") || symbol.size() > kLongestTypeName) return {};
  return demangled_after(std::string(symbol), "vtable for ");
}

ClassNames::ClassNames(PageCache& cache, const LoadedModules& modules, const AddressSpace& space,
                       Machine machine)
    : cache_(cache), modules_(modules), space_(space), word_(word_size(machine)) {}

ClassNames::Answer ClassNames::look_at(Address vptr) {
  Answer answer;
  if (!vptr.is_aligned(word_) || !is_in_module(vptr - word_)) return answer;
  // Of all vtables of a class its objects begin with the one that is for the whole object.
  const auto offset_to_top = word(vptr - uint64_t{2} * word_);
  const auto type_info = word(vptr - word_);
  if (offset_to_top != 0U || !type_info) return answer;
  answer.module = modules_.find(vptr - word_);
  if (*type_info == 0) {
    const auto first = word(vptr);
    if (first && is_code(Address(*first))) answer.verdict = Verdict::kWithoutRtti;
    return answer;
  }
  if (!is_class_type_info(Address(*type_info))) return answer;
  answer.name = class_of_type_name(name_of_type_info(Address(*type_info)));
  if (!answer.name.empty()) answer.verdict = Verdict::kNamed;
  return answer;
}

// In a module. Not all of what is constant is write-protected: linkers may do without RELRO, and a
// program has copies of libraries' type_infos in its data.
bool ClassNames::is_in_module(Address address) const {
  return modules_.find(address) != LoadedModules::kNone;
}

bool ClassNames::is_code(Address address) const {
  const Mapping* const mapping = space_.find(address);
  return mapping != nullptr && mapping->executable;
}

std::string ClassNames::text_at(Address at) {
  std::string text;
  std::array<std::byte, 64> piece;
  while (text.size() < kLongestTypeName) {
    const size_t count = cache_.read(at, piece);
    for (size_t i = 0; i < count; ++i) {
      const char letter = static_cast<char>(piece.at(i));
      if (letter == '\0') return text;
      // Letters of identifiers may be any above ASCII.
      if (letter > 0 && (letter <= ' ' || letter == 0x7f)) return {};
      text += letter;
    }
    if (count < piece.size()) return {};
    at += count;
  }
  return {};
}

std::string ClassNames::name_of_type_info(Address type_info) {
  if (!type_info.is_aligned(word_) || !is_in_module(type_info)) return {};
  const auto name = word(type_info + word_);
  if (!name || !is_in_module(Address(*name))) return {};
  return text_at(Address(*name));
}

// Whether its own class is one that cxxabi has for classes: without bases, with one, with several.
bool ClassNames::is_class_type_info(Address type_info) {
  constexpr std::array<std::string_view, 3> kClasses = {"N10__cxxabiv117__class_type_infoE",
                                                        "N10__cxxabiv120__si_class_type_infoE",
                                                        "N10__cxxabiv121__vmi_class_type_infoE"};
  if (!type_info.is_aligned(word_) || !is_in_module(type_info)) return false;
  const auto vptr = word(type_info);
  if (!vptr || !Address(*vptr).is_aligned(word_) || !is_in_module(Address(*vptr) - word_)) {
    return false;
  }
  const auto own = word(Address(*vptr) - word_);
  if (!own) return false;
  const std::string name = name_of_type_info(Address(*own));
  return std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end();
}

}  // namespace heapsnap
