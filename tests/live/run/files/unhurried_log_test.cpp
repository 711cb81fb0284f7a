#include "live/run/files/unhurried_log.hpp"

#include <condition_variable>
#include <mutex>
#include <string>

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
    log_.flush();
  }
  log_.rename_into_place();
  EXPECT_EQ(disk_->bytes, "abcdef");
  EXPECT_TRUE(disk_->in_place);
}

TEST_F(Unhurried, AHungDiskIsAnErrorAndNotAWait) {
  disk_->hangs = true;
  log_.append_bytes("four");
  EXPECT_THROW(log_.flush(), Error);
  log_.append_bytes("four");
  EXPECT_THROW(log_.append_bytes("four"), Error) << "more than ten bytes wait";
  EXPECT_THROW(log_.rename_into_place(), Error);
  EXPECT_FALSE(disk_->in_place);
}

TEST_F(Unhurried, AFullDiskIsTheErrorOfWhoeverComesNext) {
  disk_->full = true;
  log_.append_bytes("four");
  try {
    log_.flush();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "no room");
  }
  EXPECT_THROW(log_.append_bytes("x"), Error);
}

}  // namespace
}  // namespace orrery::live
