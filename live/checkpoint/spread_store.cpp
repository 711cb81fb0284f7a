#include "live/checkpoint/spread_store.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "core/sha256.hpp"

namespace orrery::live {
namespace {

/// File that is written in several places.
class SpreadFile : public Store::File {
 public:
  void add_copy(std::unique_ptr<Store::File> copy) { copies_.push_back(std::move(copy)); }
  void write(std::string_view bytes) override {
    for (const auto& copy : copies_) copy->write(bytes);
  }
  void sync() override {
    for (const auto& copy : copies_) copy->sync();
  }

 private:
  std::vector<std::unique_ptr<Store::File>> copies_;
};

/// Returns true if the bytes end with the SHA-256 of the preceding ones, as shards and manifests
/// do.
bool is_sealed(std::string_view bytes) {
  constexpr std::size_t kDigits = 64;
  if (bytes.size() < kDigits) return false;
  Sha256 hash;
  hash.update(bytes.substr(0, bytes.size() - kDigits));
  return bytes.ends_with(hash.hex());
}

}  // namespace

SpreadStore::SpreadStore(std::string root, const std::vector<std::string>& folders)
    : root_(std::move(root)) {
  for (const std::string& folder : folders) {
    targets_.push_back(FolderStore::make_folder(root_ + "/" + folder));
  }
}

std::string SpreadStore::node_folder(NodeId node) { return fmt::format("node-{}", node.value); }

void SpreadStore::remove_node(const std::string& root, NodeId node) {
  std::error_code missing;
  std::filesystem::remove_all(root + "/" + node_folder(node), missing);
}

std::vector<std::unique_ptr<FolderStore>> SpreadStore::open_all() const {
  std::vector<std::unique_ptr<FolderStore>> folders;
  for (const std::string& name : FolderStore::open(root_)->list()) {
    try {
      folders.push_back(FolderStore::open(root_ + "/" + name));
    } catch (const Error&) {  // the folder of a node that is lost at this moment
    }
  }
  return folders;
}

std::unique_ptr<Store::File> SpreadStore::create_file(const std::string& name) {
  auto file = std::make_unique<SpreadFile>();
  for (const auto& target : targets_) file->add_copy(target->create_file(name));
  return file;
}

void SpreadStore::rename(const std::string& from, const std::string& to) {
  for (const auto& target : targets_) target->rename(from, to);
}

void SpreadStore::remove_file(const std::string& name) {
  std::exception_ptr failure;
  bool removed = false;
  for (const auto& folder : open_all()) {
    try {
      folder->remove_file(name);
      removed = true;
    } catch (const Error&) {  // most folders have no copy
      failure = std::current_exception();
    }
  }
  if (!removed && failure) std::rethrow_exception(failure);
}

void SpreadStore::sync_names() {
  for (const auto& target : targets_) target->sync_names();
}

std::vector<std::string> SpreadStore::list() {
  std::set<std::string> names;
  for (const auto& folder : open_all()) {
    for (std::string& name : folder->list()) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

std::string SpreadStore::read(const std::string& name, std::uint64_t most_bytes) {
  std::optional<std::string> first;
  for (const auto& folder : open_all()) {
    try {
      std::string bytes = folder->read(name, most_bytes);
      if (is_sealed(bytes)) return bytes;
      if (!first) first = std::move(bytes);
    } catch (const Error&) {  // another folder may have a copy
    }
  }
  if (first) return *std::move(first);
  throw Error(ErrorKind::environment,
              fmt::format("cannot read '{}' in the memory of any node below '{}'", name, root_));
}

}  // namespace orrery::live
