#include "hethub/data/byte_stream.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <zlib.h>

#include "hethub/base/error.h"
#include "hethub/data/file_io.h"

namespace hethub {
namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : file_(path) {}

  std::size_t read(std::span<std::byte> out) override { return file_.read(out); }

 private:
  InputFile file_;
};

// zlib's own gzread would drop what follows a damaged member without a word.
class GzipStream : public ByteStream {
 public:
  explicit GzipStream(const std::string& path) : file_(path) {
    constexpr int kGzipOnly = 16;
    if (inflateInit2(&inflater_, kGzipOnly + MAX_WBITS) != Z_OK) {
      throw Error(ErrorCode::kOutOfMemory, {.what = path + ": decompression",
                                            .found = "no memory",
                                            .expected = "some 50 KiB",
                                            .fix = "free some memory"});
    }
  }
  ~GzipStream() override { inflateEnd(&inflater_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  std::size_t read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      if (inflater_.avail_in == 0) refill();
      if (!in_member_ && !start_member()) break;
      if (inflater_.avail_in == 0) corrupt("an end inside the compressed data");
      done += inflate_into(out.subspan(done));
    }
    return done;
  }

 private:
  void refill() {
    const std::size_t count = file_.read(std::as_writable_bytes(std::span(buffer_)));
    inflater_.next_in = buffer_.data();
    inflater_.avail_in = static_cast<uInt>(count);
    read_bytes_ += static_cast<std::int64_t>(count);
  }

  // Skips the padding before the next member; false at the end of the file.
  bool start_member() {
    while (true) {
      if (inflater_.avail_in == 0) refill();
      if (inflater_.avail_in == 0) return false;
      if (*inflater_.next_in != 0 || members_ == 0) break;
      ++inflater_.next_in;
      --inflater_.avail_in;
    }
    ++members_;
    in_member_ = true;
    return true;
  }

  std::size_t inflate_into(std::span<std::byte> out) {
    constexpr std::size_t kMost = std::size_t{1} << 30;
    const std::size_t room = std::min(out.size(), kMost);
    inflater_.next_out = reinterpret_cast<Bytef*>(out.data());
    inflater_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&inflater_, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      in_member_ = false;
      inflateReset(&inflater_);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      corrupt(inflater_.msg == nullptr ? "damaged data" : inflater_.msg);
    }
    return room - inflater_.avail_out;
  }

  [[noreturn]] void corrupt(const std::string& found) const {
    throw Error(ErrorCode::kCorruptData,
                {.what = text(file_.path(), ": gzip member ", members_, " near byte ",
                              read_bytes_ - inflater_.avail_in),
                 .found = found,
                 .expected = "whole gzip members to the end of the file",
                 .fix = "fetch or compress the file again"});
  }

  InputFile file_;
  std::array<Bytef, 1 << 16> buffer_ = {};
  z_stream inflater_ = {};
  std::int64_t read_bytes_ = 0;
  std::int64_t members_ = 0;
  bool in_member_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::string& path, Compression compression) {
  if (compression == Compression::kGzip) return std::make_unique<GzipStream>(path);
  return std::make_unique<PlainStream>(path);
}

}  // namespace hethub
