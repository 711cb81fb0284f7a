// Times of the operations of all groups of one process, for `orrery calibrate`. Plain C++ without
// PyTorch, compiled into the user's program. Seconds of the monotonic clock.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace orrery::live {

/// Times of one operation. 0: not yet, or never. Any thread.
struct OperationTimes {
  std::string name;                   ///< for example "all_reduce"
  std::string group;                  ///< key of the group (GroupPlace::key)
  double bytes = 0;                   ///< size of the tensors that the program has given
  std::atomic<double> issued_s = 0;   ///< the program has called the operation
  std::atomic<double> begun_s = 0;    ///< all earlier operations of the group are done
  std::atomic<double> ended_s = 0;    ///< the program has the result
  std::atomic<double> awaited_s = 0;  ///< first wait for the operation by Work::wait()
};

/// Operations in the order of their calls. Keeps nothing before start_logging(). Any thread.
class OperationLog {
 public:
  /// Starts to keep operations.
  void start_logging() { is_logging_ = true; }
  /// Adds an operation that the program calls now. Returns its times; null before start_logging().
  std::shared_ptr<OperationTimes> add_operation(const std::string& name, const std::string& group,
                                                double bytes);
  /// Returns all operations so far, forgets them, and keeps no further ones.
  std::vector<std::shared_ptr<const OperationTimes>> stop_logging();

 private:
  std::atomic<bool> is_logging_ = false;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const OperationTimes>> operations_;
};

/// Returns the present instant of the monotonic clock in seconds, as Python's time.monotonic().
double clock_s();

}  // namespace orrery::live
