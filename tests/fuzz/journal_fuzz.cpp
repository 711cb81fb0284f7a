// Fuzzer: a journal of any bytes is accepted, or refused with a reason; records appended to an
// accepted one are read again. The first byte chooses: the bytes themselves, or cut into records
// with their checksums and an opening, so that the code behind the first check is reached.
#include <cstdint>
#include <cstdio>
#include <string>
#include <unistd.h>

#include "core/error.hpp"
#include "live/run/files/journal.hpp"

namespace {

using namespace orrery::live;

/// One file in memory for the whole process, rewritten for every input.
const std::string& journal_path() {
  static const std::string path = "/dev/shm/orrery-journal-fuzz-" + std::to_string(getpid());
  return path;
}

/// Two bytes say how long the next record is; the last one may be torn.
std::string with_checksums(const std::uint8_t* data, std::size_t size, bool torn) {
  JournalRecord opening;
  opening.mutable_opening()->set_format(kJournalFormat);
  std::string file = framed(opening.SerializeAsString());
  while (size >= 2) {
    const std::size_t wanted = data[0] | data[1] << 8;
    const std::size_t length = wanted < size - 2 ? wanted : size - 2;
    file += framed({reinterpret_cast<const char*>(data + 2), length});
    data += 2 + length;
    size -= 2 + length;
  }
  if (torn) file.pop_back();
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes = data[0] & 1
                                ? with_checksums(data + 1, size - 1, data[0] & 2)
                                : std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  std::FILE* file = std::fopen(journal_path().c_str(), "wb");
  if (file == nullptr) return -1;
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  try {
    JournalRecord record;
    record.set_started(1);
    if (!Journal(journal_path(), "").append_record(record)) __builtin_trap();
    if (Journal(journal_path(), "").past().started != 1) __builtin_trap();
  } catch (const orrery::Error& error) {
    if (error.kind() != orrery::ErrorKind::environment) __builtin_trap();
  }
  return 0;
}
