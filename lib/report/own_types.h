// What a long name of a C++ type keeps of its template arguments: the program's own types, which
// say what the standard library's containers hold.
//
//   std::unordered_map<std::string, Session, std::hash<std::string>, ...>
//   std::unordered_map<…, Session, …>
//
//   std::__detail::_Hash_node<std::pair<std::string const, std::unique_ptr<shop::Session>>, true>
//   std::__detail::_Hash_node<std::pair<…, std::unique_ptr<shop::Session>>, …>
//   std::__detail::_Hash_node<…, shop::Session>   without what holds it
//   std::__detail::_Hash_node<shop::Session>      alone
//   _Hash_node<Session>                           without namespaces
//   …<Session>                                    without the library's type
#pragma once

#include <string>
#include <string_view>

namespace heapsnap {

enum class OwnTypesForm { kNested, kFlat, kAlone, kShort, kInner };

// Empty where no argument is a type of the program's, or brackets do not match.
std::string with_own_types(std::string_view name, OwnTypesForm form);

}  // namespace heapsnap
