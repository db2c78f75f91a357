// Keeps objects without vtables in structures of all kinds, and says how many blocks of each type
// there are (typed_block_count.h), "held ADDRESS VARIABLE" of two objects, and then "ready", until
// standard input ends. Built with debug information, which alone knows these types.
#include "typed_holder.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "typed_block_count.h"

namespace shop {

using typed_block_count::one;
using typed_block_count::some;

constexpr const char* kText = "a text that is too long to lie in a std::string itself";

struct Order {
  long number = 1;
  double price = 2;
  int parts[10] = {};
};

struct Profile {
  char country[3] = "XX";
  std::string motto;
  unsigned flags : 3;
  unsigned level : 7;
};

class Session {
 public:
  std::string name;
  std::vector<Order> orders;
  std::unique_ptr<Profile> profile;
  Session* friend_of = nullptr;
  std::optional<std::string> remark;
  long counters[20] = {};
};

std::unordered_map<std::string, Session*> g_sessions;

void make_sessions() {
  Session* previous = nullptr;
  for (int i = 0; i < 50; ++i) {
    auto* const session = one("shop::Session", new Session);
    session->name = kText;
    session->remark = kText;
    session->orders.resize(3);
    one("shop::Order[]", session->orders.data());
    session->profile.reset(one("shop::Profile", new Profile));
    session->profile->motto = kText;
    session->friend_of = previous;
    previous = session;
    g_sessions[kText + std::to_string(i)] = session;
  }
  some("std::string characters", 4L * 50);
  some("std::__detail::_Hash_node<std::pair<const std::string, shop::Session*>, true>", 50);
  some("std::unordered_map/set buckets", 1);
}

// A tree by unique_ptr, and one that C would have.
struct Branch {
  std::unique_ptr<Branch> left;
  std::unique_ptr<Branch> right;
  long value[4] = {};
};
static std::unique_ptr<Branch> g_branches;

void grow(std::unique_ptr<Branch>& branch, int depth) {
  if (depth == 0) return;
  branch.reset(one("shop::Branch", new Branch));
  grow(branch->left, depth - 1);
  grow(branch->right, depth - 1);
}

struct Item {
  int id;
  Item* next;
  char* label;
  void* opaque;
  char text[40];
};
Item* g_items;

// Nothing but a void* leads to these.
struct Secret {
  long key[9];
};

void make_items() {
  for (int i = 0; i < 100; ++i) {
    auto* const item = one("shop::Item", static_cast<Item*>(std::calloc(1, sizeof(Item))));
    item->id = i;
    item->label = one("char[]", static_cast<char*>(std::malloc(100)));
    std::strcpy(item->label, kText);
    auto* const secret = static_cast<Secret*>(std::calloc(1, sizeof(Secret)));
    secret->key[0] = i;
    item->opaque = secret;
    item->next = g_items;
    g_items = item;
  }
  some("shop::Secret", 0);
}

// Which of both it is, only the program knows.
struct Coin {
  long cents[6];
};
struct Note {
  long euros[6];
};
union Money {
  Coin* coin;
  Note* note;
};
Money g_purse[20];

void fill_purse() {
  for (int i = 0; i < 20; ++i) {
    if (i % 2 == 0) {
      g_purse[i].coin = new Coin{{i}};
    } else {
      g_purse[i].note = new Note{{i}};
    }
  }
  some("shop::Coin", 0);
  some("shop::Note", 0);
}

struct Left {
  long left[3] = {};
};
struct Right {
  long right[5] = {};
};
struct Both : Left, Right {
  long both[2] = {};
};
struct Wide : Left {
  long wide[9] = {};
};
Both* g_both[10];
Left* g_lefts[10];  // some are more than that

struct Point {
  float x, y, z;
};
Point* g_points;
struct Packet {
  unsigned length;
  char bytes[];
};
Packet* g_packets[10];

void make_others() {
  for (int i = 0; i < 10; ++i) {
    g_both[i] = one("shop::Both", new Both);
    g_lefts[i] = i % 2 == 0 ? one("shop::Left", new Left) : new Wide;
    const size_t bytes = 100 * static_cast<size_t>(i);
    g_packets[i] =
        one("shop::Packet", static_cast<Packet*>(std::calloc(1, sizeof(Packet) + bytes)));
  }
  some("shop::Wide", 0);
  g_points = one("shop::Point[]", new Point[1000]);
}

struct Region {
  std::list<std::string> towns;
  std::forward_list<long> heights;
  std::set<int> zips;
};
std::map<int, Region> g_regions;
std::deque<Order> g_queue;
std::unordered_set<int> g_seen;
std::vector<Session*> g_order;
std::shared_ptr<Profile> g_shared;

void fill_containers() {
  for (int i = 0; i < 30; ++i) {
    Region& region = g_regions[i];
    for (int town = 0; town < 4; ++town) region.towns.emplace_back(kText);
    for (int height = 0; height < 3; ++height) region.heights.push_front(height);
    for (int zip = 0; zip < 5; ++zip) region.zips.insert(zip);
    g_seen.insert(i);
    g_queue.emplace_back();
  }
  some("std::_Rb_tree_node<std::pair<int const, shop::Region>>", 30);
  some("std::_List_node<std::string>", 4L * 30);
  some("std::string characters", 4L * 30);
  some("std::_Fwd_list_node<long int>", 3L * 30);
  some("std::_Rb_tree_node<int>", 5L * 30);
  some("std::__detail::_Hash_node<int, false>", 30);
  some("std::unordered_map/set buckets", 1);
  some("shop::Order[]", (30 + 512 / sizeof(Order) - 1) / (512 / sizeof(Order)));
  g_order.reserve(100);
  for (const auto& [name, session] : g_sessions) g_order.push_back(session);
  some("shop::Order*[]", 1);  // where the deque keeps its blocks
  one("shop::Session*[]", g_order.data());
  g_shared = std::make_shared<Profile>();
  g_shared->motto = kText;
  some("std::string characters", 1);
}

// Vectors of which few hold anything, and objects with an array of pointers that few set.
struct Visitor {
  long values[13] = {};
};
struct Table {
  Table* next = nullptr;
  Visitor* chairs[9] = {};
};
std::vector<std::vector<Visitor*>> g_seats(40, std::vector<Visitor*>(16));
Table* g_tables;

const Visitor* fill_seats() {
  some("shop::Visitor*[]", 40);
  return g_seats[20][7] = one("shop::Visitor", new Visitor);
}

const Visitor* fill_tables() {
  for (int i = 0; i < 40; ++i) g_tables = one("shop::Table", new Table{g_tables});
  return g_tables->chairs[5] = one("shop::Visitor", new Visitor);
}

// Declared here, defined elsewhere.
Ledger* g_ledger;

struct Local {
  long values[15] = {};
};
class Registry {
 public:
  static Local* the_one;
};
Local* Registry::the_one;

struct OfThread {
  OfThread* next = nullptr;
  long values[11] = {};
};
thread_local OfThread* t_list;

struct Kept {
  long values[17] = {};
};
Kept* keep() {
  static Kept* kept[3];
  for (Kept*& each : kept) each = one("shop::Kept", new Kept);
  return kept[0];
}

namespace {
struct Hidden {
  long values[19] = {};
};
Hidden* volatile g_hidden;
}  // namespace

// Held by a stack frame alone.
struct Guest {
  Guest* next = nullptr;
  long values[23] = {};
};
struct Hotel {
  Guest* first = nullptr;
  std::vector<Guest*> rooms;
};

void wait_for_end(Hotel* hotel) {
  while (std::getchar() != EOF) {
  }
  std::printf("%p\n", static_cast<void*>(hotel->first));
}

void run() {
  Hotel hotel;
  for (int i = 0; i < 12; ++i) {
    auto* const guest = one("shop::Guest", new Guest);
    guest->next = hotel.first;
    hotel.first = guest;
    hotel.rooms.push_back(guest);
  }
  one("shop::Guest*[]", hotel.rooms.data());
  const void* const in_vector = fill_seats();
  const void* const in_array = fill_tables();
  typed_block_count::print();
  std::printf("held %p g_seats\nheld %p g_tables\nready\n", in_vector, in_array);
  std::fflush(stdout);
  wait_for_end(&hotel);
}

}  // namespace shop

int main() {
  using namespace shop;
  make_sessions();
  grow(g_branches, 6);
  make_items();
  fill_purse();
  make_others();
  fill_containers();
  g_ledger = make_ledger(25);
  Registry::the_one = one("shop::Local", new Local);
  for (int i = 0; i < 8; ++i) {
    auto* const mine = one("shop::OfThread", new OfThread);
    mine->next = t_list;
    t_list = mine;
  }
  keep();
  g_hidden = one("shop::(anonymous namespace)::Hidden", new Hidden);
  run();
  return 0;
}
