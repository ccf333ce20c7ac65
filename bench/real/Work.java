// SPDX-License-Identifier: MIT
// Fixed work of `sheaf bench real`: the compiler of the one-file launcher, and memory outside Java's heap.
import java.nio.ByteBuffer;
import java.util.zip.Deflater;

public class Work {
	public static void main(String[] words) {
		long total = 0;
		byte[] text = "a line of text that is compressed ".repeat(2000).getBytes(), out = new byte[1 << 16];
		for (int i = 0; i < 300; i++) {
			ByteBuffer direct = ByteBuffer.allocateDirect(1000 + i * 37 % 5000);
			direct.putInt(0, i);
			Deflater deflater = new Deflater(1 + i % 9);
			deflater.setInput(text);
			deflater.finish();
			total += deflater.deflate(out) + direct.getInt(0);
			deflater.end();
		}
		System.out.println(total);
	}
}
