#include "live/run/files/journal_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kLook{10};  // Time between two questions for the rename.

}  // namespace

OpenFile::~OpenFile() {
  if (file_ >= 0) close(file_);
}

int JournalFiles::append_bytes(const std::string& bytes) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<OpenFile> current = current_, next = next_;
  if (is_rewriting_ && !next) missing_ += bytes;
  lock.unlock();
  const int why = calls_.write(current->descriptor(), bytes);
  if (why != 0 || !next) return why;
  return calls_.write(next->descriptor(), bytes);
}

void JournalFiles::begin_rewrite() {
  const std::scoped_lock lock(mutex_);
  is_rewriting_ = true;
  missing_.clear();
}

void JournalFiles::rewrite(const std::string& beginning, const std::function<bool()>& may_rename) {
  const std::string fresh = path_ + ".new";
  unlink(fresh.c_str());
  const std::shared_ptr<OpenFile> next = create_next();
  if (!next) return end_rewrite(false);
  const bool is_whole = calls_.write(next->descriptor(), beginning) == 0 && catch_up(next);
  while (is_whole && !may_rename()) std::this_thread::sleep_for(kLook);
  const bool is_replaced = is_whole && calls_.rename(fresh, path_) == 0;
  end_rewrite(is_replaced);
  if (!is_replaced) unlink(fresh.c_str());
}

std::shared_ptr<OpenFile> JournalFiles::create_next() const {
  const int file = open((path_ + ".new").c_str(),
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND | O_NOFOLLOW, 0600);
  return file < 0 ? nullptr : std::make_shared<OpenFile>(file);
}

bool JournalFiles::catch_up(const std::shared_ptr<OpenFile>& next) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (missing_.empty()) {
      next_ = next;
      return true;
    }
    const std::string bytes = std::exchange(missing_, {});
    lock.unlock();
    if (calls_.write(next->descriptor(), bytes) != 0) return false;
  }
}

void JournalFiles::end_rewrite(bool is_replaced) {
  const std::scoped_lock lock(mutex_);
  if (is_replaced) current_ = next_;
  next_.reset();
  is_rewriting_ = false;
  missing_.clear();
  outcome_ = is_replaced;
}

std::optional<bool> JournalFiles::take_outcome() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(outcome_, std::nullopt);
}

}  // namespace orrery::live
