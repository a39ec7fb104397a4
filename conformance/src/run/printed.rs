//! What a client and a relay print: read as it comes, and but the end of it kept, so that whoever
//! prints without end fills neither memory nor disk.

use std::{
    fs::File,
    io::{self, PipeReader, Read},
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use crate::mutex::lock;

/// How much is kept.
const KEPT: usize = 16 * 1024;
/// How long the last words may be on their way. Who outlives the client may hold its output open for
/// ever.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A reader of what is printed to the other end.
#[derive(Debug)]
pub(super) struct Printed {
    end: Arc<Mutex<Vec<u8>>>,
    is_read: oneshot::Receiver<()>,
}

impl Printed {
    /// Starts to read; what is written to the file is printed.
    ///
    /// # Errors
    ///
    /// There is no pipe to be had.
    pub(super) fn open() -> io::Result<(Self, File)> {
        let (reader, writer) = io::pipe()?;
        let end = Arc::<Mutex<Vec<u8>>>::default();
        let (done, is_read) = oneshot::channel();
        let kept = Arc::clone(&end);
        // Not a task: a relay's lines are written by tasks, which then wait for this one.
        thread::spawn(move || {
            read(reader, &kept);
            // Nobody may wait for it any more.
            let _ = done.send(());
        });
        Ok((Self { end, is_read }, File::from(OwnedFd::from(writer))))
    }

    /// The last of what was printed, when those who print have ended.
    pub(super) async fn end(self) -> String {
        // In either case: what is there is there.
        let _ = timeout(LAST_WORDS, self.is_read).await;
        String::from_utf8_lossy(&lock(&self.end)).into_owned()
    }
}

fn read(mut reader: PipeReader, kept: &Mutex<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = reader.read(&mut buffer) {
        let mut kept = lock(kept);
        kept.extend_from_slice(&buffer[..read]);
        let over = kept.len().saturating_sub(KEPT);
        kept.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn of_what_a_client_printed_the_end_is_kept() {
        let (printed, output) = Printed::open().unwrap();
        drop(output);
        assert_eq!(printed.end().await, "");
        let (printed, mut output) = Printed::open().unwrap();
        // More than a pipe holds: someone reads.
        let long = "x".repeat(1_000_000) + "the last words";
        output.write_all(long.as_bytes()).unwrap();
        drop(output);
        let kept = printed.end().await;
        assert_eq!(kept.len(), 16 * 1024);
        assert!(kept.ends_with("xthe last words"));
    }

    #[tokio::test(start_paused = true)]
    async fn who_holds_the_output_open_does_not_keep_the_report_waiting() {
        let (printed, _output) = Printed::open().unwrap();
        assert_eq!(printed.end().await, "");
    }
}
