#include "live/run/files/unhurried_log.hpp"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

/// Disk that may hang, or be full.
struct Disk {
  std::mutex mutex;
  std::condition_variable changed;
  std::string bytes;
  bool hangs = false, full = false, in_place = false;
};

class OnDisk : public LogFile {
 public:
  explicit OnDisk(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}
  void begin_at(std::uint64_t bytes) override { disk_->bytes.resize(bytes); }
  void append_bytes(const std::string& bytes) override {
    std::unique_lock lock(disk_->mutex);
    disk_->changed.wait(lock, [this] { return !disk_->hangs; });
    if (disk_->full) throw Error(ErrorKind::environment, "no room");
    disk_->bytes += bytes;
  }
  void flush() override {}
  void release_file() override {}
  void rename_into_place() override { disk_->in_place = true; }

 private:
  const std::shared_ptr<Disk> disk_;
};

/// Waits until `done`, at most ten seconds; returns its last result.
bool eventually(const std::function<bool()>& done) {
  for (int i = 0; i < 1000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done();
}

constexpr UnhurriedLog::Patience kShort{.flush = std::chrono::milliseconds(50),
                                        .end = std::chrono::milliseconds(50),
                                        .waiting_bytes = 10};

class Unhurried : public ::testing::Test {
 protected:
  Unhurried() : log_(std::make_unique<OnDisk>(disk_), kShort) {}
  ~Unhurried() override {
    const std::scoped_lock lock(disk_->mutex);
    disk_->hangs = false;
    disk_->changed.notify_all();
  }
  const std::shared_ptr<Disk> disk_ = std::make_shared<Disk>();
  UnhurriedLog log_;
};

TEST_F(Unhurried, WritesAllInOrder) {
  log_.begin_at(0);
  for (const char* each : {"a", "bc", "def"}) {
    log_.append_bytes(each);
  }
  log_.rename_into_place();
  EXPECT_EQ(disk_->bytes, "abcdef");
  EXPECT_TRUE(disk_->in_place);
}

TEST_F(Unhurried, AHungDiskIsAnErrorAndNotAWait) {
  disk_->hangs = true;
  log_.append_bytes("four");
  log_.flush();
  EXPECT_THROW(log_.begin_at(0), Error);
  log_.append_bytes("four");
  EXPECT_THROW(log_.append_bytes("four"), Error) << "more than ten bytes wait";
  EXPECT_THROW(log_.rename_into_place(), Error);
  EXPECT_FALSE(disk_->in_place);
}

TEST_F(Unhurried, ItsProgressNamesTheBytesThatTheFileHolds) {
  disk_->hangs = true;
  log_.append_bytes("four");
  const auto is_flushed = LogProgress::flush_query(log_.progress());
  EXPECT_FALSE(is_flushed());
  {
    const std::scoped_lock lock(disk_->mutex);
    disk_->hangs = false;
    disk_->changed.notify_all();
  }
  EXPECT_TRUE(eventually(is_flushed));
  EXPECT_EQ(log_.progress()->waiting(), 0u);
}

TEST_F(Unhurried, ALogThatIsGivenUpHoldsUpNobody) {
  disk_->full = true;
  log_.append_bytes("four");
  const auto is_flushed = LogProgress::flush_query(log_.progress());
  EXPECT_TRUE(eventually(is_flushed));
}

TEST_F(Unhurried, AFullDiskIsTheErrorOfWhoeverComesNext) {
  disk_->full = true;
  log_.append_bytes("four");
  try {
    log_.begin_at(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "no room");
  }
  EXPECT_THROW(log_.append_bytes("x"), Error);
}

}  // namespace
}  // namespace orrery::live
