# cmake -DIN=FILE -DOUT=FILE.cpp -DSYMBOL=name -P embed_bytes.cmake writes a C++ file with the bytes
# of a file that the build makes, as `extern const std::string_view orrery::embedded::SYMBOL`.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include <string_view>
namespace orrery::embedded {
namespace {
const unsigned char bytes[] = {
${bytes}};
}  // namespace
extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL}{reinterpret_cast<const char*>(bytes), sizeof(bytes)};
}  // namespace orrery::embedded
")
