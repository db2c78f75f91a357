// What a long name of a C++ type keeps of its template arguments: the program's own types, which
// say what the standard library's containers hold.
//
//   std::unordered_map<std::string, Session, std::hash<std::string>, ...>
//   std::unordered_map<…, Session, …>
//
//   std::__detail::_Hash_node<std::pair<std::string const, std::unique_ptr<Session>>, true>
//   std::__detail::_Hash_node<std::pair<…, std::unique_ptr<Session>>, …>
//   std::__detail::_Hash_node<…, Session>         without what holds it
#pragma once

#include <string>
#include <string_view>

namespace heapsnap {

enum class OwnTypesForm { kNested, kFlat };

// Empty where no argument is a type of the program's, or brackets do not match.
std::string with_own_types(std::string_view name, OwnTypesForm form);

}  // namespace heapsnap
