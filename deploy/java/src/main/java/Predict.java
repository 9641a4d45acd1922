import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.tensorflow.Result;
import org.tensorflow.SavedModelBundle;
import org.tensorflow.Tensor;
import org.tensorflow.ndarray.NdArrays;
import org.tensorflow.types.TFloat32;
import org.tensorflow.types.TString;

/**
 * Predicts serialized tf.train.Examples with an export: {@code Predict EXPORT EXAMPLES.tfrecord}.
 *
 * <p>Prints a line for each number of each output: its name and the number, row by row.
 */
public final class Predict {
  private static final int HEADER_BYTES = 12; // of a TFRecord: the length, and its checksum
  private static final int FOOTER_BYTES = 4; // the checksum of the content

  private Predict() {}

  public static void main(String[] args) throws IOException {
    byte[][] examples = records(Files.readAllBytes(Path.of(args[1]))).toArray(new byte[0][]);
    try (SavedModelBundle model = SavedModelBundle.load(args[0], "serve");
        TString given = TString.tensorOfBytes(NdArrays.vectorOfObjects(examples));
        Result answers = model.function("serving_default").call(Map.of("examples", given))) {
      for (Map.Entry<String, Tensor> output : answers) {
        ((TFloat32) output.getValue())
            .scalars()
            .forEach(number -> System.out.println(output.getKey() + " " + number.getFloat()));
      }
    }
  }

  /** Returns the records of a TFRecord file, without a look at their checksums. */
  private static List<byte[]> records(byte[] file) {
    ByteBuffer buffer = ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN);
    List<byte[]> found = new ArrayList<>();
    while (buffer.hasRemaining()) {
      byte[] content = new byte[Math.toIntExact(buffer.getLong(buffer.position()))];
      buffer.position(buffer.position() + HEADER_BYTES).get(content);
      buffer.position(buffer.position() + FOOTER_BYTES);
      found.add(content);
    }
    return found;
  }
}
