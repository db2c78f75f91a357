// What remains of the names in a snapshot when it is shared: words that say what something is, and
// not whose it is.
//
//   /home/ann/shop/bin/server          /cut/server        a program or library: its file name
//   /srv/customers/acme.db             /cut/file-1        any other file: a number
//   [anon:session of ann]              [anon:name-1]
//   Session::open(char const*)         as it is           functions, variables and types, but for
//   (lambda at /home/ann/s.cpp:3:9)    (lambda at s.cpp:3:9)          folders named in them,
//   #<Class:0x00007f3a58c01e40>        #<Class:address-1>             and addresses
//
// With `keeps_names` off, programs, libraries, functions, variables, types and source files are
// replaced by numbers as well. Numbers are given in the order in which names are asked for, so the
// same snapshot always gets the same ones, and equal names become equal.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "analysis/passed_frames.h"
#include "references/block_type.h"

namespace heapsnap {

class NameCut {
 public:
  explicit NameCut(bool keeps_names) : keeps_names_(keeps_names) {}

  // To be called first: which paths are those of programs and libraries, and what the process is
  // called.
  void add_module(const std::string& path);
  void set_program(const std::string& exe, const std::string& comm);

  // A path as the kernel or the dynamic loader has it, or a name that the kernel gives to memory.
  std::string path(const std::string& path);
  std::string function(const std::string& name);
  std::string variable(const std::string& name);
  std::string local(const std::string& name);  // as in local_name.h
  // `source`: names that heapsnap gave by itself stay.
  std::string type(const std::string& name, TypeSource source);
  std::string part(const std::string& name);
  std::string source_file(const std::string& path) const;
  std::string program_name() const;
  std::string thread_name(const std::string& name);
  // A thread or process: 1 is the first that is asked for. 0 and below stay.
  int64_t thread(int64_t tid);
  // A sentence of heapsnap's own: words with digits, paths or addresses in them become "...".
  static std::string sentence(std::string_view text);
  // One that is known, or the file name of a module.
  std::string allocator(const std::string& name);
  // A short word of heapsnap's own; empty when it cannot be one.
  static std::string word(const std::string& text);

  bool keeps_names() const { return keeps_names_; }
  // How many different ones there were.
  size_t folders() const { return folders_.size(); }
  size_t files() const { return files_; }
  size_t thread_names() const { return threads_named_.size(); }
  size_t names() const { return functions_.size() + variables_.size() + types_.size(); }

 private:
  using Numbered = std::unordered_map<std::string, std::string>;

  std::string cut_path(const std::string& path);
  std::string module(const std::string& path);
  std::string start_name(const std::string& name);
  // What is kept of a name that is kept.
  std::string kept_name(const std::string& name);
  static std::string numbered(Numbered& known, const std::string& name, std::string_view front);
  std::string bracketed(const std::string& name);

  bool keeps_names_;
  PassedFrames passed_;
  std::set<std::string> modules_;
  std::set<std::string> folders_;
  std::string exe_, comm_;
  Numbered paths_;
  // File names of modules, each with the folders that it was found in.
  std::map<std::string, std::map<std::string, size_t>> module_folders_;
  Numbered module_names_, functions_, variables_, types_, threads_named_, memory_names_, addresses_;
  std::map<int64_t, int64_t> threads_;
  size_t files_ = 0;
};

}  // namespace heapsnap
