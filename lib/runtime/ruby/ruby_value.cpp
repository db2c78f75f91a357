#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

const char* RubyValue::type_name(RubyType type) {
  switch (type) {
    case RubyType::kNone: return "NONE";
    case RubyType::kObject: return "OBJECT";
    case RubyType::kClass: return "CLASS";
    case RubyType::kModule: return "MODULE";
    case RubyType::kFloat: return "FLOAT";
    case RubyType::kString: return "STRING";
    case RubyType::kRegexp: return "REGEXP";
    case RubyType::kArray: return "ARRAY";
    case RubyType::kHash: return "HASH";
    case RubyType::kStruct: return "STRUCT";
    case RubyType::kBignum: return "BIGNUM";
    case RubyType::kFile: return "FILE";
    case RubyType::kData: return "DATA";
    case RubyType::kMatch: return "MATCH";
    case RubyType::kComplex: return "COMPLEX";
    case RubyType::kRational: return "RATIONAL";
    case RubyType::kSymbol: return "SYMBOL";
    case RubyType::kImemo: return "IMEMO";
    case RubyType::kNode: return "NODE";
    case RubyType::kIclass: return "ICLASS";
    case RubyType::kZombie: return "ZOMBIE";
    case RubyType::kMoved: return "MOVED";
  }
  return nullptr;
}

const char* RubyValue::imemo_name(unsigned kind) {
  static constexpr const char* kNames[] = {
      "env",  "cref",   "svar", "throw_data",     "ifunc",    "memo",      "ment",
      "iseq", "tmpbuf", "ast",  "parser_strterm", "callinfo", "callcache", "constcache"};
  return kind < sizeof kNames / sizeof kNames[0] ? kNames[kind] : nullptr;
}

}  // namespace heapsnap
