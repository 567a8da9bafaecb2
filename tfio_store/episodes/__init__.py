"""Episodes of robots: datasets of RLDS as TensorFlow Datasets lays them out, without TensorFlow."""
