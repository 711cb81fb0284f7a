#include "live/nccl/collective_report.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/nccl/report_receiver.hpp"
#include "live/nccl/report_sender.hpp"

namespace orrery::live {
namespace {

const CollectiveReport kDone{.communicator = 81,
                             .sequence = 5,
                             .rank = 3,
                             .ranks = 4,
                             .kind = CollectiveKind::reduce_scatter,
                             .bytes = 1 << 20,
                             .algorithm = CollectiveAlgorithm::ring,
                             .duration_ns = 420'000};

TEST(CollectiveReport, ALineIsReadAsItWasWritten) {
  const std::string line = print_report(kDone);
  EXPECT_EQ(line, "done 81 5 3 4 reduce_scatter 1048576 ring 420000");
  const auto read = parse_report(line);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(print_report(*read), line);
  EXPECT_EQ(std::get<OpenReport>(*parse_report(print_report(OpenReport{2}))).rank, 2u);
}

TEST(CollectiveReport, OtherLinesAreNone) {
  for (const char* line : {"", "open", "open x", "open 1 2", "done 81 5 3 4 all_reduce 8 ring",
                           "done 81 5 3 4 all_reduce 8 ring 1x", "done 81 5 3 4 sum 8 ring 1",
                           "done 81 5 3 4 all_reduce 8 rong 1", "close 1"}) {
    EXPECT_FALSE(parse_report(line).has_value()) << line;
  }
}

TEST(CollectiveReport, NamesAreThoseOfNccl) {
  EXPECT_EQ(kind_of_function("AllReduce"), CollectiveKind::all_reduce);
  EXPECT_FALSE(kind_of_function("SendRecv").has_value());
  EXPECT_EQ(algorithm_named("RING"), CollectiveAlgorithm::ring);
  EXPECT_EQ(algorithm_named("NVLSTree"), CollectiveAlgorithm::nvls);
  EXPECT_EQ(algorithm_named("PAT"), CollectiveAlgorithm::automatic);
  EXPECT_EQ(bytes_of_type("ncclFloat32"), 4u);
  EXPECT_EQ(bytes_of_type("ncclFloat8e4m3"), 1u);
  EXPECT_EQ(bytes_of_type("Unknown"), 0u);
}

TEST(CollectiveReports, ReachTheReceiverInOrderAndAreDroppedWithoutOne) {
  const std::string path = "/tmp/orrery_reports." + std::to_string(getpid());
  ReportSender early(path.c_str());
  early.add_report(OpenReport{1});
  ReportReceiver receiver(path);
  EXPECT_TRUE(receiver.drain_reports().empty());
  ReportSender sender(path.c_str());
  sender.add_report(OpenReport{1});
  for (int i = 0; i < 3; ++i) sender.add_report(kDone);
  sender.send_reports();
  const auto seen = receiver.drain_reports();
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_TRUE(std::holds_alternative<OpenReport>(seen[0]));
  early.send_reports();
  EXPECT_EQ(receiver.drain_reports().size(), 1u) << "it has waited for the receiver";
  ReportSender none(nullptr);
  none.add_report(kDone);
  EXPECT_THROW(ReportReceiver("/no/such/folder/nccl"), Error);
  EXPECT_THROW(ReportReceiver(std::string(200, 'x')), Error);
}

}  // namespace
}  // namespace orrery::live
