// A log that never holds a run up: a thread of its own writes it, and a disk that takes nothing is
// an error of whoever appends, like one that is full. So a run goes on without its log. What a hung
// disk still holds up is the end of the process. One thread calls it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "policies/record/recorder.hpp"

namespace orrery::live {

class UnhurriedLog : public LogFile {
 public:
  struct Patience {
    std::chrono::milliseconds flush{2000}, end{10'000};
    std::size_t waiting_bytes = std::size_t{64} << 20;
  };
  UnhurriedLog(std::unique_ptr<LogFile> plain, Patience patience);
  ~UnhurriedLog() override;
  UnhurriedLog(const UnhurriedLog&) = delete;
  UnhurriedLog& operator=(const UnhurriedLog&) = delete;

  void begin_at(std::uint64_t bytes) override;
  void append(const std::string& bytes) override;
  void flush() override;
  void leave() override;
  void put_in_place() override;

 private:
  struct Shared;
  void wait_for(std::function<void(LogFile&)> task, std::chrono::milliseconds patience);

  const Patience patience_;
  const std::shared_ptr<Shared> shared_;  ///< the thread's too, which may outlive this
};

}  // namespace orrery::live
