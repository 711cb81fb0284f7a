// Key-value store of a program's process groups, kept by `orrery run`, so that the loss of rank 0
// does not end it. Implements PyTorch's c10d::Store. Compiled into the user's program.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "live/group/frames.hpp"

namespace orrery::live {

/// Connection to the store. Any thread; one request at a time, also while a request waits for a
/// key: threads that wait at once use a clone() each.
class ProgramStore final : public c10d::Store {
 public:
  /// Connects to the Unix socket `path`. Throws c10::Error if that fails.
  explicit ProgramStore(std::string path);
  ~ProgramStore() override;

  /// Ends the request that waits and all later ones with a c10::Error.
  void abort_requests();

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& current,
                                  const std::vector<uint8_t>& next) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  /// Returns the answer's value. Throws c10::Error if the store is gone or the time is up.
  std::string send_request(const Fields& fields);

  std::string path_;
  int descriptor_ = -1;
  std::mutex mutex_;
  FrameReader reader_;
};

}  // namespace orrery::live
