#include "policies/record/log_converter.hpp"

#include <memory>
#include <string_view>

#include <google/protobuf/io/coded_stream.h>

#include "policies/record/log_hash.hpp"
#include "policies/record/log_reader.hpp"
#include "policies/record/recorder.hpp"

namespace orrery {
namespace {

void append_record(const LogRecord& record, LogFile& file) {
  const std::string bytes = record.SerializeAsString();
  std::uint8_t length[10];
  const std::uint8_t* const end =
      google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(bytes.size(), length);
  const std::string_view prefix(reinterpret_cast<const char*>(length),
                                static_cast<std::size_t>(end - length));
  file.append_bytes(std::string(prefix) + bytes);
}

}  // namespace

ConvertedLog convert_log(const std::string& from, const std::string& to) {
  LogReader log(from);
  LogRecord record;
  *record.mutable_header() = read_header(log);
  ConvertedLog done{.from = log.format(), .to = log_format(record.header())};
  const std::unique_ptr<LogFile> file = open_log(to);
  LogHash hash;
  hash.add_record(record.SerializeAsString());
  append_record(record, *file);
  while (log.next(record)) {
    if (record.has_call()) {
      hash.add_stored(record);
      ++done.calls;
    } else if (record.has_footer()) {
      record.mutable_footer()->set_decision_log_sha256(hash.hex());
    }
    append_record(record, *file);
  }
  file->rename_into_place();
  return done;
}

}  // namespace orrery
