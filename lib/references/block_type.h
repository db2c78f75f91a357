// What kind of object a block holds, as far as its memory tells.
//
// A C++ object with virtual functions begins with the address of its class's vtable; that names the
// class, by symbol or by the RTTI name in memory. Blocks of other kinds are recognized by their
// structure. What is not known stays type 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heapsnap {

// Stored in snapshots: values never change their meaning, new ones are appended.
enum class TypeSource : uint8_t {
  kUnknown = 0,
  kVtable = 1,     // by its vtable: symbol or RTTI
  kStructure = 2,  // recognized by what lies in it ("FILE", "std::string characters")
  kDebugInfo = 3,  // by the types of the pointers that lead to it
  kRuntime = 4,    // a language runtime says so: the class of an object, or a buffer of one
};

const char* to_string(TypeSource source);  // "vtable", "structure", ...

struct BlockType {
  std::string name;    // demangled
  std::string module;  // path of the module that defines it; empty where unknown
  TypeSource source = TypeSource::kUnknown;
  // Of objects of Ruby, what they are to the interpreter: RuntimeType's name and part. Of others,
  // and of objects that its collector knows to be dead: empty. `part` of Python's classes:
  // kClassPart; of the blocks of PostgreSQL's memory contexts: kContextPart.
  std::string builtin = {};
  std::string part = {};
  // A language runtime says which words of such blocks are references: none is left over.
  bool is_exact = false;
  // A bit for each of an object's first 64 words that debug information declares to be a pointer;
  // of arrays in which containers keep elements, all bits.
  uint64_t pointers = 0;
  uint64_t bytes = 0;  // of an object, by debug information; 0: not known, or not always the same
  bool operator==(const BlockType&) const = default;
};

inline constexpr std::string_view kClassPart = "class";
inline constexpr std::string_view kContextPart = "memory context";
// Of what Ruby's interpreter keeps among objects (T_IMEMO), what owns memory as its memsize_of has
// it. Others only lead to what is not theirs, as what unwinds a stack leads into it.
inline constexpr std::string_view kOwningImemos[] = {"ast", "env", "iseq", "ment", "tmpbuf"};

// Whether objects of that type are classes (or modules of Ruby, which are like them).
bool is_class_object(const BlockType& type);
bool is_context_block(const BlockType& type);

// Number of a type: index into the list of types, whose first one is the unknown type.
using TypeNumber = uint32_t;

}  // namespace heapsnap
