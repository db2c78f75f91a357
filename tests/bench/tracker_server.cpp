// A server's work without its sockets, for tracker_bench.py: tracker_server THREADS REQUESTS. Each
// thread takes REQUESTS requests in JSON, parses them into a tree, looks up and changes a session,
// and writes an answer; the way of programs that keep a tree of strings, maps and vectors.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct Value {
  enum class Kind { kNumber, kText, kList, kObject } kind = Kind::kNumber;
  double number = 0;
  std::string text;
  std::vector<std::unique_ptr<Value>> list;
  std::map<std::string, std::unique_ptr<Value>> object;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  std::unique_ptr<Value> value() {
    auto value = std::make_unique<Value>();
    switch (peek()) {
      case '{': object(*value); break;
      case '[': list(*value); break;
      case '"':
        value->kind = Value::Kind::kText;
        value->text = string();
        break;
      default:
        value->number = strtod(text_.data() + at_, nullptr);
        while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != ']' && text_[at_] != '}') {
          ++at_;
        }
    }
    return value;
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void object(Value& value) {
    value.kind = Value::Kind::kObject;
    for (++at_; peek() != '}' && peek() != '\0';) {
      std::string name = string();
      ++at_;  // the colon
      value.object.emplace(std::move(name), this->value());
      if (peek() == ',') ++at_;
    }
    ++at_;
  }
  void list(Value& value) {
    value.kind = Value::Kind::kList;
    for (++at_; peek() != ']' && peek() != '\0';) {
      value.list.push_back(this->value());
      if (peek() == ',') ++at_;
    }
    ++at_;
  }
  std::string string() {
    std::string text;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) text.push_back(text_[at_]);
    ++at_;
    return text;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void write(const Value& value, std::string& out) {
  switch (value.kind) {
    case Value::Kind::kNumber: out += std::to_string(value.number); break;
    case Value::Kind::kText: out += '"' + value.text + '"'; break;
    case Value::Kind::kList:
      out += '[';
      for (const auto& item : value.list) {
        write(*item, out);
        out += ',';
      }
      out += ']';
      break;
    case Value::Kind::kObject:
      out += '{';
      for (const auto& [name, item] : value.object) {
        out += '"' + name + "\":";
        write(*item, out);
        out += ',';
      }
      out += '}';
  }
}

struct Session {
  std::vector<std::string> seen;
  std::unique_ptr<Value> last;
};

class Server {
 public:
  std::string answer(const std::string& request) {
    std::unique_ptr<Value> value = Parser(request).value();
    const std::string user = value->object["user"]->text;
    std::string answer;
    write(*value, answer);
    const std::lock_guard<std::mutex> lock(mutex_);
    Session& session = sessions_[user];
    session.seen.push_back(value->object["path"]->text);
    if (session.seen.size() > 20)
      session.seen.erase(session.seen.begin(), session.seen.begin() + 10);
    session.last = std::move(value);
    return "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(answer.size()) + "\r\n\r\n" +
           answer;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Session> sessions_;
};

std::string request(uint64_t number) {
  std::string text = "{\"user\":\"user-" + std::to_string(number % 500) + "\",\"path\":\"/items/" +
                     std::to_string(number * 7919 % 100003) + "/details\",\"tags\":[";
  for (uint64_t i = 0; i < number % 8; ++i) {
    if (i != 0) text += ',';
    text += "{\"name\":\"a tag of some length " + std::to_string(i) +
            "\",\"weight\":" + std::to_string(i * number) + "}";
  }
  return text + "],\"options\":{\"limit\":50,\"order\":\"descending by date\",\"fields\":[1,2,3]}}";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int threads = atoi(argv[1]);
  const uint64_t requests = strtoull(argv[2], nullptr, 10);
  Server server;
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&server, requests, i] {
      uint64_t bytes = 0;
      for (uint64_t n = 0; n < requests; ++n) {
        bytes += server.answer(request(n * 2 + static_cast<uint64_t>(i))).size();
      }
      if (bytes == 0) abort();
    });
  }
  for (std::thread& thread : team) thread.join();
  return 0;
}
