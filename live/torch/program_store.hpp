// Key-value store of a program's process groups, kept by `orrery run`, so that the loss of rank 0
// does not end it. A successor of `orrery run` keeps an empty one at the same path. Implements
// PyTorch's c10d::Store. Compiled into the user's program.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Connection to the store. Any thread; one request at a time, also while a request waits for a
/// key: threads that wait at once use a clone() each. Every request throws c10::Error if the store
/// is gone, which also ends the connection of a request above kMaxFrameBytes. The next request then
/// connects again.
class ProgramStore final : public c10d::Store {
 public:
  /// Connects to the Unix socket `path`. Throws c10::Error if that fails or the path is too long.
  explicit ProgramStore(std::string path);
  ~ProgramStore() override;

  /// Ends the request that waits and all later ones with a c10::Error; clones are not affected.
  void abort_requests();

  /// Returns a new connection to the same store, with the default timeout. Throws like the
  /// constructor.
  c10::intrusive_ptr<c10d::Store> clone() override;
  /// Sets the key's value, in place of an earlier one.
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  /// Sets the key to `next` if its value is `current`, or if the key is missing and `current` is
  /// empty. Returns the value afterwards; `current` for a missing key that is not set.
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& current,
                                  const std::vector<uint8_t>& next) override;
  /// Returns the value; blocks until the key exists. Throws c10::DistStoreError after the timeout.
  std::vector<uint8_t> get(const std::string& key) override;
  /// Adds `value` to the key's decimal number; a missing key or another text counts as 0. Returns
  /// the sum.
  int64_t add(const std::string& key, int64_t value) override;
  /// Removes the key. Returns true if it existed.
  bool deleteKey(const std::string& key) override;
  /// Returns true if all keys exist; does not block for them.
  bool check(const std::vector<std::string>& keys) override;
  /// Returns the number of keys of all groups.
  int64_t getNumKeys() override;
  /// Blocks until all keys exist. Throws c10::DistStoreError after the timeout.
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  /// Blocks until all keys exist. Throws c10::DistStoreError after `timeout`.
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  /// Returns the answer's value. Throws c10::Error if the store is gone or the time is up.
  std::string send_request(const Fields& fields);
  void connect_anew();
  bool is_closed() const;

  std::string path_;
  int descriptor_ = -1;
  std::atomic<bool> is_aborted_ = false;
  std::mutex mutex_;
  FrameReader reader_;
};

}  // namespace orrery::live
