// Files of checkpoints in the memory of a cluster's nodes: one folder for each node in a file
// system in memory, so that files survive the death of the processes that wrote them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ids.hpp"
#include "live/checkpoint/store.hpp"

namespace orrery::live {

/// Store whose files are copies in one or several folders below one root. For example, a store with
/// the folders {node-0, node-2} writes each file into both folders, and any store of the same root
/// reads the file as long as one of the folders exists. Methods throw as those of Store. Several
/// stores of one root may be used at once, also by other processes.
class SpreadStore : public Store {
 public:
  /// Opens a store that writes into the `folders` below `root`, and creates them and the root, if
  /// missing (0700); without folders the store can only read, list and remove. Throws an
  /// environment Error if a folder cannot be created.
  SpreadStore(std::string root, const std::vector<std::string>& folders);
  /// Returns the name of the folder of a node's files.
  static std::string node_folder(NodeId node);
  /// Deletes the files in the memory of a node below `root`: the node is lost. No effect if there
  /// are none.
  static void remove_node(const std::string& root, NodeId node);

  /// Creates the file in each of the folders; the returned file writes to all of them.
  std::unique_ptr<File> create_file(const std::string& name) override;
  /// Renames the file in each of the folders.
  void rename(const std::string& from, const std::string& to) override;
  /// Deletes the copies in all folders below the root.
  void remove_file(const std::string& name) override;
  void sync_names() override;
  /// Returns the names of the files in all folders below the root, each once.
  std::vector<std::string> list() override;
  /// Returns the contents of the first copy that ends with the SHA-256 of the preceding bytes;
  /// if no copy does, of the first copy.
  std::string read(const std::string& name, std::uint64_t most_bytes) override;

 private:
  /// Returns all folders below the root that can be opened, in the order of their names.
  std::vector<std::unique_ptr<FolderStore>> open_all() const;

  const std::string root_;
  std::vector<std::unique_ptr<FolderStore>> targets_;
};

}  // namespace orrery::live
