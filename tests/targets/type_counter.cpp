// Makes objects of classes of all kinds, destroys some of them, and says how many of each class are
// left: type_counter LIBRARY [LIBRARY...]
//
//   class COUNT NAME       live objects, each in a block of its own
//   array BLOCKS NAME      blocks that hold several of them
//   storage BLOCKS NAME    blocks of containers
//   ready                  until standard input ends
//
// What is freed is used again, by objects of other classes and by text.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "type_ledger.h"

namespace shop {

class Base {
 public:
  virtual ~Base() = default;
  virtual int work() { return number_; }

 protected:
  int number_ = 1;
};

class Session : public Base {
 public:
  int work() override { return number_ + 1; }
  char name[24] = "session";
};

// Empty but for its vptr.
class Marker {
 public:
  virtual ~Marker() = default;
};

class Left {
 public:
  virtual ~Left() = default;
  long left = 2;
};
class Right {
 public:
  virtual ~Right() = default;
  long right = 3;
};
class Both : public Left, public Right {
 public:
  long both = 4;
};

struct Plain {
  long plain = 5;
};
// Its vptr lies before its first base.
class AfterPlain : public Plain {
 public:
  virtual ~AfterPlain() = default;
  long after = 6;
};

class Shared {
 public:
  virtual ~Shared() = default;
  long shared = 7;
};
class OneSide : public virtual Shared {
 public:
  long one = 8;
};
class OtherSide : public virtual Shared {
 public:
  long other = 9;
};
class Diamond : public OneSide, public OtherSide {
 public:
  long diamond = 10;
};

// Without a virtual function, but with a vtable.
class VirtualPlain : public virtual Plain {
 public:
  long more = 11;
};

template <typename T, int N = 1>
class Box : public Base {
 public:
  T content[N] = {};
};

class Failure : public std::exception {
 public:
  const char* what() const noexcept override { return "failure"; }
};

}  // namespace shop

namespace {

class Hidden : public shop::Base {
 public:
  long hidden = 12;
};

namespace inner {
template <typename T>
class HiddenBox : public shop::Marker {
 public:
  T content = {};
};
}  // namespace inner

// An object as a member, behind another: no block of its own.
struct Holder {
  long before = 13;
  shop::Session session;
};

constexpr size_t kMost = 1 << 16;
void* volatile g_kept[kMost];
size_t g_count = 0;

void keep(void* block) {
  if (g_count == kMost) std::abort();
  g_kept[g_count++] = block;
}

// `count` objects are left of three times as many: the others are destroyed in between, some at
// once, some later, so that they are in all kinds of free lists.
template <typename T>
void make(const char* name, int count) {
  std::vector<T*> later;
  for (int i = 0; i < count; ++i) {
    T* const one = type_ledger::make<T>(name);
    T* const two = type_ledger::make<T>(name);
    keep(type_ledger::make<T>(name));
    type_ledger::destroy(name, one);
    later.push_back(two);
  }
  for (T* object : later) type_ledger::destroy(name, object);
}

void make_all() {
  class Local : public shop::Base {
   public:
    long local = 14;
  };
  make<shop::Base>("shop::Base", 100);
  make<shop::Session>("shop::Session", 1000);
  make<shop::Marker>("shop::Marker", 70);
  make<shop::Left>("shop::Left", 11);
  make<shop::Both>("shop::Both", 230);
  make<shop::AfterPlain>("shop::AfterPlain", 17);
  make<shop::OneSide>("shop::OneSide", 19);
  make<shop::Diamond>("shop::Diamond", 310);
  make<shop::VirtualPlain>("shop::VirtualPlain", 23);
  make<shop::Box<int>>("shop::Box<int, 1>", 41);
  make<shop::Box<std::string, 3>>(
      "shop::Box<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, "
      "3>",
      43);
  make<shop::Box<shop::Box<char, 700>>>("shop::Box<shop::Box<char, 700>, 1>", 9);
  make<shop::Box<char, 200000>>("shop::Box<char, 200000>", 3);  // mmapped
  make<shop::Failure>("shop::Failure", 5);
  make<Hidden>("(anonymous namespace)::Hidden", 130);
  make<inner::HiddenBox<double>>("(anonymous namespace)::inner::HiddenBox<double>", 47);
  make<Local>("(anonymous namespace)::make_all()::Local", 53);
}

// Where objects were, text.
void use_again() {
  for (const size_t size : {24, 40, 56, 72, 120, 800}) {
    for (int i = 0; i < 200; ++i) {
      auto* const text = static_cast<char*>(std::malloc(size));
      if (text == nullptr) std::abort();
      std::memset(text, 'x', size);
      keep(text);
    }
  }
}

// Blocks with objects in them that are not theirs.
void make_holders() {
  for (int i = 0; i < 30; ++i) {
    keep(new Holder);
    keep(new std::shared_ptr<shop::Session>(std::make_shared<shop::Session>()));
  }
  type_ledger::count(
      "std::_Sp_counted_ptr_inplace<shop::Session, std::allocator<void>, "
      "(__gnu_cxx::_Lock_policy)2>",
      30);
}

// Arrays and vectors of objects. A block with one object is an object.
void make_rows() {
  for (size_t count : {2, 3, 7, 100, 3000}) {
    keep(new shop::Both[count]);
    keep(new std::vector<shop::Session>(count));
    auto* const roomy = new std::vector<shop::Session>;
    roomy->reserve(count + 20);
    roomy->resize(3);
    keep(roomy);
  }
  type_ledger::line_of("array", "shop::Both").count += 5;
  type_ledger::line_of("array", "shop::Session").count += 10;
  // A number before an object does not make it an array of one.
  struct Numbered {
    long number = 1;
    shop::Session session;
  };
  keep(new Numbered);
}

std::map<int, std::string> g_map;
std::unordered_map<std::string, int> g_hash;
std::vector<std::string> g_texts;
std::vector<std::wstring> g_wide_texts;
std::vector<std::u16string> g_texts_of_16;
std::vector<std::u32string> g_texts_of_32;
std::deque<long> g_queue;

// What `main` holds on its stack, too.
struct Containers {
  std::set<long> set;
  std::list<double> list;
  std::unordered_set<int> hash_set;
};

void fill_containers(Containers& local) {
  const std::string text(40, 'y');
  for (int i = 0; i < 500; ++i) g_map[i * 7919 % 500] = text;
  for (int i = 0; i < 300; ++i) g_hash[text + std::to_string(i)] = i;
  for (int i = 0; i < 100; ++i) g_texts.push_back(text + text);
  g_texts.emplace_back("short");
  for (int i = 0; i < 50; ++i) g_wide_texts.emplace_back(10 + i, L'w');
  for (int i = 0; i < 30; ++i) g_texts_of_16.emplace_back(10 + i, u'\u20ac');
  for (int i = 0; i < 20; ++i) g_texts_of_32.emplace_back(10 + i, U'\U0001f600');
  for (int i = 0; i < 1000; ++i) g_queue.push_back(i);
  for (int i = 0; i < 200; ++i) {
    local.set.insert(i ^ 0x55);
    local.list.push_back(i);
    local.hash_set.insert(i);
  }
  auto* const lists = new std::list<std::list<int>>;
  for (int i = 0; i < 20; ++i) lists->emplace_back(5, i);
  keep(lists);
  for (int i = 0; i < 200; i += 3) local.set.erase(i);
  const auto add = [](const char* name, size_t blocks) {
    type_ledger::line_of("storage", name).count += static_cast<long>(blocks);
  };
  add("std::map/set node", g_map.size() + local.set.size());
  add("std::list node", local.list.size() + 20 + 20 * 5);
  add("std::unordered_map/set node", g_hash.size() + local.hash_set.size());
  add("std::string characters", 500 + 300 + 100);
  add("std::vector storage", 1 + 3);
  add("std::u16string characters", 30);
  add("std::wstring/u32string characters", 50 + 20);
  add("std::deque map", 1);
  add("std::deque buffer", 16);
  add("std::unordered_map/set buckets", 2);
}

bool load(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, "make_objects");
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  reinterpret_cast<void (*)()>(symbol)();
  return true;
}

}  // namespace

int main(int count, char** words) {
  make_all();
  std::thread(make_all).join();  // in an arena of its own
  use_again();
  make_holders();
  make_rows();
  Containers local;
  fill_containers(local);
  for (int i = 1; i < count; ++i) {
    if (!load(words[i])) return 1;
  }
  type_ledger::print();
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
