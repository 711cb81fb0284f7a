// Stores for tests: one that fails at a chosen call, and one in memory whose power can fail.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

/// Passes on to another store; call number `fails_at` (from 0) of those that change something
/// throws, after half of the bytes if it is a write, and so do the calls after it if `for_good`.
class FailingStore : public Store {
 public:
  FailingStore(Store& inner, int fails_at, bool for_good)
      : inner_(inner), fails_at_(fails_at), for_good_(for_good) {}

  std::unique_ptr<File> create_file(const std::string& name) override {
    count();
    return std::make_unique<FailingFile>(*this, inner_.create_file(name));
  }
  void rename(const std::string& from, const std::string& to) override {
    count();
    inner_.rename(from, to);
  }
  void remove_file(const std::string& name) override {
    count();
    inner_.remove_file(name);
  }
  void sync_names() override {
    count();
    inner_.sync_names();
  }
  std::vector<std::string> list() override { return inner_.list(); }
  std::string read(const std::string& name, std::uint64_t most_bytes) override {
    return inner_.read(name, most_bytes);
  }

  bool has_failed() const { return calls_ > fails_at_; }

 private:
  class FailingFile : public File {
   public:
    FailingFile(FailingStore& store, std::unique_ptr<File> inner)
        : store_(store), inner_(std::move(inner)) {}
    void write(std::string_view bytes) override {
      try {
        store_.count();
      } catch (const Error&) {
        inner_->write(bytes.substr(0, bytes.size() / 2));
        throw;
      }
      inner_->write(bytes);
    }
    void sync() override {
      store_.count();
      inner_->sync();
    }

   private:
    FailingStore& store_;
    std::unique_ptr<File> inner_;
  };

  void count() {
    const int call = calls_++;
    if (call == fails_at_ || (for_good_ && call > fails_at_)) {
      throw Error(ErrorKind::environment, "no space left on this device");
    }
  }

  Store& inner_;
  const int fails_at_;
  const bool for_good_;
  int calls_ = 0;
};

/// Store like a disk with a cache: contents and names that were not made durable may be lost by
/// lose_power(), each on its own.
class MemoryStore : public Store {
 public:
  std::unique_ptr<File> create_file(const std::string& name) override {
    if (names_.contains(name)) throw Error(ErrorKind::environment, "cannot create " + name);
    return std::make_unique<MemoryFile>(names_[name] = std::make_shared<Inode>());
  }
  void rename(const std::string& from, const std::string& to) override {
    names_[to] = names_.at(from);
    names_.erase(from);
  }
  void remove_file(const std::string& name) override {
    if (names_.erase(name) == 0) throw Error(ErrorKind::environment, "cannot remove " + name);
  }
  void sync_names() override { durable_names_ = names_; }
  std::vector<std::string> list() override {
    std::vector<std::string> names;
    for (const auto& [name, inode] : names_) names.push_back(name);
    return names;
  }
  std::string read(const std::string& name, std::uint64_t most_bytes) override {
    const auto found = names_.find(name);
    if (found == names_.end()) throw Error(ErrorKind::environment, "cannot read " + name);
    if (found->second->content.size() > most_bytes) {
      throw Error(ErrorKind::bad_input, name + " is too large");
    }
    return found->second->content;
  }

  /// Returns the store after a power loss: `rng` chooses, for every name and content that was not
  /// made durable, the part that was already written.
  MemoryStore lose_power(Rng& rng) const {
    std::set<std::string> all;
    for (const auto* names : {&names_, &durable_names_}) {
      for (const auto& [name, inode] : *names) all.insert(name);
    }
    MemoryStore left;
    for (const std::string& name : all) {
      const auto& names = rng.below(2) == 0 ? names_ : durable_names_;
      const auto found = names.find(name);
      if (found == names.end()) continue;
      const Inode& inode = *found->second;
      auto kept = std::make_shared<Inode>();
      const std::size_t more = inode.content.size() - inode.durable;
      kept->content = inode.content.substr(0, inode.durable + rng.below(more + 1));
      kept->durable = kept->content.size();
      left.names_[name] = std::move(kept);
    }
    left.durable_names_ = left.names_;
    return left;
  }

  std::string& content(const std::string& name) { return names_.at(name)->content; }

 private:
  struct Inode {
    std::string content;
    std::size_t durable = 0;  ///< number of durable bytes
  };
  class MemoryFile : public File {
   public:
    explicit MemoryFile(std::shared_ptr<Inode> inode) : inode_(std::move(inode)) {}
    void write(std::string_view bytes) override { inode_->content.append(bytes); }
    void sync() override { inode_->durable = inode_->content.size(); }

   private:
    std::shared_ptr<Inode> inode_;
  };

  std::map<std::string, std::shared_ptr<Inode>> names_, durable_names_;
};

}  // namespace orrery::live
