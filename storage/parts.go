package storage

// Limits of S3 (Amazon S3 User Guide, "multipart upload limits").
const (
	MaxObjectSize = 5 << 40 // bytes
	MaxPartSize   = 5 << 30 // bytes
	MinPartSize   = 5 << 20 // bytes; the last part may be smaller
	MaxParts      = 10_000
)

const (
	mebi = 1 << 20

	// smallestPart is the part size of artifacts up to 15.6 GiB. Smaller parts cost more requests, larger ones
	// more to send again when one fails.
	smallestPart = 16 * mebi
	// modestPart is how far a part grows to keep an artifact within fewParts. An artifact of 1 TiB has 1,024 of them.
	modestPart = 1024 * mebi
	// fewParts is the most parts that some stores take (Scaleway: 1,000).
	fewParts = 1_000
	// partsInFlight is how many parts of a source of known size are sent at once.
	partsInFlight = 4
)

// PartSize returns the part size in bytes for an artifact of a known size in bytes, at most MaxObjectSize. It is a
// whole number of MiB, keeps an artifact of up to 1,000 GiB within 1,000 parts, and any artifact within MaxParts. Parts are
// read where they lie and not buffered, so their size costs no memory.
func PartSize(size int64) int64 {
	part := roundUp((size+fewParts-1)/fewParts, mebi)
	return max(smallestPart, min(part, modestPart), roundUp((size+MaxParts-1)/MaxParts, mebi))
}

func roundUp(n, unit int64) int64 {
	return (n + unit - 1) / unit * unit
}

// streamSteps is how the parts of a source of unknown size grow. 10,000 parts must hold 5 TiB, so most parts of the
// largest objects are over 500 MiB; the steps put that off as long as they can, and hold but one part at a time once
// two would pass 64 MiB.
var streamSteps = []streamStep{
	{parts: 1_000, size: 16 * mebi, buffers: 4},   // up to 15.6 GiB: 64 MiB of memory
	{parts: 3_000, size: 32 * mebi, buffers: 2},   // up to 109 GiB: 64 MiB
	{parts: 1_000, size: 128 * mebi, buffers: 1},  // up to 234 GiB: 128 MiB
	{parts: 1_000, size: 512 * mebi, buffers: 1},  // up to 734 GiB: 512 MiB
	{parts: 4_000, size: 1152 * mebi, buffers: 1}, // up to 5.1 TiB: 1.1 GiB
}

type streamStep struct {
	parts   int
	size    int64
	buffers int
}

// StreamPart returns the size in bytes of part number (from 1 on) of a source of unknown size, and how many such
// parts are held in memory at once, the one being read included. Memory is their product: 64 MiB up to an object of
// 109 GiB, 1.1 GiB for one of 5 TiB.
func StreamPart(number int) (size int64, buffers int) {
	for _, step := range streamSteps {
		if number <= step.parts {
			return step.size, step.buffers
		}
		number -= step.parts
	}
	last := streamSteps[len(streamSteps)-1]
	return last.size, last.buffers
}
