#include "runtime/python/python_variables.h"

#include <utility>

#include "runtime/python/python_table.h"
#include "runtime/python/python_text.h"

namespace heapsnap {

void PythonVariables::add(std::span<const PythonModule> modules) {
  for (const PythonModule& one : modules) {
    const auto name = name_at(one.name);
    if (!name) continue;
    each_entry(one.dict, [&](Address word, const std::string& variable) {
      add_variable(word, *name + "." + variable);
      add_attributes_of(value_at(word), *name);
    });
  }
}

void PythonVariables::add_attributes_of(Address at, const std::string& module) {
  const PythonType* const of_class = is_class(at) ? types_.find(at.value()) : nullptr;
  if (of_class == nullptr || !of_class->is_program || types_.module_of(at) != module) return;
  const auto dict = cache_.word(at + layout_.type_base + kPythonWord, kPythonWord);
  if (!dict) return;
  const bool is_main = module == "__main__";
  const std::string name = is_main ? module + "." + of_class->name : of_class->name;
  each_entry(Address(*dict), [&](Address word, const std::string& attribute) {
    if (keeps_others(value_at(word))) add_variable(word, name + "." + attribute);
  });
}

void PythonVariables::add_variable(Address word, std::string name) {
  constexpr size_t kMostVariables = 1 << 20;
  if (objects_.variables.size() < kMostVariables) {
    objects_.variables.push_back({word, std::move(name), path_});
  }
}

const PythonType* PythonVariables::type_of(Address at) {
  const auto type = at.is_null() ? std::nullopt : cache_.word(at + kPythonTypeAt, kPythonWord);
  return type ? types_.find(*type) : nullptr;
}

bool PythonVariables::is_class(Address at) {
  const PythonType* const type = type_of(at);
  return type != nullptr && type->is_metatype;
}

// Whether an object is a container, or one of a class of the program's.
bool PythonVariables::keeps_others(Address at) {
  using Family = PythonType::Family;
  const PythonType* const type = type_of(at);
  if (type == nullptr || type->is_metatype) return false;
  const bool is_container = type->family == Family::kList || type->family == Family::kDict ||
                            type->family == Family::kSet || type->family == Family::kByteArray ||
                            type->family == Family::kArray ||
                            type->keeps != PythonType::Keeps::kNothing;
  return is_container || type->is_program;
}

std::optional<std::string> PythonVariables::name_at(Address at) {
  constexpr size_t kLongest = 200;
  return python_name(cache_, layout_, at, kLongest);
}

// Calls visit(where the value is, name) for the entries of a dict whose keys are names that the
// interpreter does not give by itself.
template <typename Visit>
void PythonVariables::each_entry(Address dict, Visit visit) {
  if (dict.is_null()) return;
  const auto keys = cache_.word(dict + layout_.dict_keys, kPythonWord);
  const auto table = keys ? python_table(cache_, layout_, Address(*keys)) : std::nullopt;
  if (!table) return;
  for (uint64_t i = 0; i < table->entries && entries_left_ != 0; ++i) {
    --entries_left_;
    const Address key = table->key_at(i);
    const auto key_word = cache_.word(key, kPythonWord);
    if (!key_word) return;
    const auto name = name_at(Address(*key_word));
    if (name && !name->starts_with("__")) visit(key + kPythonWord, *name);
  }
}

}  // namespace heapsnap
