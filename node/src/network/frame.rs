//! The frame codec: a `u32` little-endian length, then that many bytes.
//!
//! ```text
//! +----+----+----+----+------------------ ... ------------------+
//! | length, u32 LE    | payload, 1 ..= MAX_FRAME_BYTES bytes     |
//! +----+----+----+----+------------------ ... ------------------+
//! ```
//!
//! The length is judged before anything is allocated, and the buffer grows with what really arrives, so a peer
//! that announces the longest frame and sends nothing costs next to nothing.

use std::io;

use folklore_protocol::message::MAX_MESSAGE_BYTES;
use futures::{AsyncRead, AsyncReadExt};

/// Bytes of the length in front of a frame.
pub const FRAME_HEADER_BYTES: usize = 4;

/// The longest payload that is sent or accepted, in bytes: a frame carries one message, so a longer one could only be
/// read to be refused. It also bounds the inbound queue (events times this).
pub const MAX_FRAME_BYTES: usize = MAX_MESSAGE_BYTES;

/// What is reserved for a payload before its bytes arrive. Most frames are shorter than this.
const FIRST_RESERVE_BYTES: usize = 4 * 1024;

/// Why no further frame can be read from a stream. After any of these the stream is at an unknown position and
/// must be dropped.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The announced length is over [`MAX_FRAME_BYTES`].
    #[error("the peer announced a frame of {0} bytes, the limit is {MAX_FRAME_BYTES}; it is broken or hostile")]
    TooLarge(u32),
    /// The announced length is zero; no sender of ours writes such a frame.
    #[error("the peer announced an empty frame; it is broken or hostile")]
    Empty,
    /// The stream ended inside a frame, or the transport failed.
    #[error("the stream broke: {0}")]
    Io(#[from] io::Error),
}

/// The four bytes that go in front of a payload of `len` bytes, or `None` where such a payload must not be sent.
pub(super) fn header(len: usize) -> Option<[u8; FRAME_HEADER_BYTES]> {
    if len == 0 || len > MAX_FRAME_BYTES {
        return None;
    }
    u32::try_from(len).ok().map(u32::to_le_bytes)
}

/// Reads one frame; `Ok(None)` when the stream ended between two frames.
pub(super) async fn read<R>(stream: &mut R) -> Result<Option<Vec<u8>>, FrameError>
where
    R: AsyncRead + Unpin,
{
    let mut header = [0u8; FRAME_HEADER_BYTES];
    let (first, rest) = header.split_at_mut(1);
    if stream.read(first).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(rest).await?;

    let announced = u32::from_le_bytes(header);
    if announced == 0 {
        return Err(FrameError::Empty);
    }
    let len = usize::try_from(announced).map_err(|_| FrameError::TooLarge(announced))?;
    if len > MAX_FRAME_BYTES {
        return Err(FrameError::TooLarge(announced));
    }

    let mut payload = Vec::with_capacity(len.min(FIRST_RESERVE_BYTES));
    let got = stream.take(u64::from(announced)).read_to_end(&mut payload).await?;
    if got < len {
        return Err(FrameError::Io(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("it ended {got} bytes into a frame of {len}"),
        )));
    }
    Ok(Some(payload))
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<FrameError>) {
        futures::executor::block_on(async {
            let mut stream = Cursor::new(bytes);
            let mut frames = Vec::new();
            loop {
                match read(&mut stream).await {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => return (frames, None),
                    Err(error) => return (frames, Some(error)),
                }
            }
        })
    }

    fn write_all(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend(header(frame.len()).expect("a payload of a permitted length"));
            bytes.extend(frame);
        }
        bytes
    }

    #[test]
    fn lengths_outside_the_bounds_get_no_header() {
        assert_eq!(header(0), None);
        assert_eq!(header(MAX_FRAME_BYTES + 1), None);
        assert_eq!(header(1), Some([1, 0, 0, 0]));
        assert_eq!(header(MAX_FRAME_BYTES), Some([0, 0, 1, 0]));
    }

    #[test]
    fn an_announced_length_over_the_limit_is_refused_unread() {
        let (frames, error) = read_all(&[1, 0, 1, 0, 9, 9]);
        assert!(frames.is_empty());
        assert!(matches!(error, Some(FrameError::TooLarge(n)) if n as usize == MAX_FRAME_BYTES + 1));
        let (_, error) = read_all(&[255, 255, 255, 255]);
        assert!(matches!(error, Some(FrameError::TooLarge(u32::MAX))));
    }

    #[test]
    fn an_empty_frame_is_refused() {
        assert!(matches!(read_all(&[0; 4]).1, Some(FrameError::Empty)));
    }

    #[test]
    fn a_promise_that_is_not_kept_is_a_broken_stream() {
        let mut stream = Cursor::new(&[0u8, 0, 1, 0, 7][..]);
        let error = futures::executor::block_on(read(&mut stream)).expect_err("the stream is cut");
        assert!(matches!(error, FrameError::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof));
    }

    proptest! {
        #[test]
        fn frames_survive_the_round_trip(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..6000), 0..8)) {
            let (back, error) = read_all(&write_all(&frames));
            prop_assert!(error.is_none());
            prop_assert_eq!(back, frames);
        }

        #[test]
        fn a_cut_stream_yields_whole_frames_only(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = write_all(&frames);
            let kept = cut.index(bytes.len());
            let (back, error) = read_all(&bytes[..kept]);
            prop_assert!(back.len() < frames.len());
            prop_assert_eq!(&back[..], &frames[..back.len()]);
            prop_assert_eq!(error.is_none(), write_all(&back).len() == kept);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let (frames, _) = read_all(&bytes);
            prop_assert!(frames.iter().all(|f| !f.is_empty() && f.len() <= MAX_FRAME_BYTES));
        }
    }
}
